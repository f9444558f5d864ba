"""Start, watch and stop pods.

disk            disk usage
starting        what the start of a pod and of its containers needs
attempt_watch   one attempt of a container while it runs
container       one container, from attempt to attempt
status_writer   the status of one pod, written to the API server
pod             one pod, with a task
agent           all pods
usage           CPU and memory usage
server          logs over HTTPS
"""
