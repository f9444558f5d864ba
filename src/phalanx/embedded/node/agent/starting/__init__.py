"""Prepare the start of a pod and of its containers.

peers        wait until the pod's peers have addresses
api_objects  ConfigMaps, Secrets and tokens, read from the API
pod_volumes  the volumes and the tokens of a pod
root         the files of a container's image
user         the user and the group of a container's processes
image_wait   the reason why a container waits if its image is not on this machine
container_start  one start of a container: its root, its mounts and its target container
kernel_limits  the limits that the kernel enforces on a container, and on a pod
run_spec     the command, environment, user, files and limits of a container
"""
