"""Start, watch and stop pods.

cause           why a pod ended, as text
disk            disk usage
starting        what a start of a container runs
attempt_watch   one attempt of a container while it runs
container       one container, from attempt to attempt
pod             one pod, with a task
agent           all pods
usage           CPU and memory usage
server          logs over HTTPS
"""
