"""One container's process, and what it is given.

durable     files that are whole or not there, and who may write them
shim        the parent of a container's process, which outlives the agent
attempt     one start of a container, and how it ended
exec        a command beside it
probe       is it alive, is it ready?
image       what the name of its image stands for on this machine
cgroup      what it may use
isolation   what of it can be set apart on this machine
log         what it wrote
"""
