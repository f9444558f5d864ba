"""The process of one container, its files and its limits.

durable     files that are written atomically, and their permissions
shim        the parent process of a container's process; it continues after the end of the agent
attempt     read and record one start of a container, and its end
exec        run a command in a running container
probe       liveness, readiness and startup probes
image       the files and settings that belong to an image name on this machine
cgroup      resource limits
isolation   the kinds of isolation that this machine supports
log         the output of the container
"""
