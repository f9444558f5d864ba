"""Prepare the start of a container.

root         the files of its image
user         the user and the group of its processes
image_wait   why it waits if its image is not on this machine
run_spec     its command, environment, user, files and limits
"""
