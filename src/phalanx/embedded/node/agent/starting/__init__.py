"""Prepare the start of a pod and of its containers.

pod_volumes  the volumes and the tokens of a pod
root         the files of a container's image
user         the user and the group of its processes
image_wait   why it waits if its image is not on this machine
run_spec     its command, environment, user, files and limits
"""
