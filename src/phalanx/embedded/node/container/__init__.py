"""One container's process, its files and its limits.

durable     files that are written atomically, and their permissions
shim        the parent of a container's process, which outlives the agent
attempt     one start of a container, and its end
exec        a command beside the container
probe       liveness, readiness and startup probes
image       the files and settings of an image name on this machine
cgroup      resource limits
isolation   the kinds of isolation that this machine supports
log         the container's output
"""
