"""Start, watch and stop pods.

allocation      decide whether a pod fits on the node, and choose its devices and CPUs
starting        prepare the start of a pod and of its containers
attempt_watch   watch one attempt (one start of a container) while it runs
container       manage one container over all its attempts
pod             manage one pod in its own task
disk            measure the disk usage of pods, and evict pods that use too much
agent           admit pods, and manage all pods of the node
usage           measure CPU and memory usage
server          serve logs, and streams into pods, over HTTPS
"""
