"""Commands that act inside a pod of a job.

place         choose the pod and the container
shell         run a command or a shell
cp            copy files
port_forward  forward a local port
"""
