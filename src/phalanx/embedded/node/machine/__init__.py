"""The machine as a node.

settings       the settings of a node agent
machine        the resources of the machine
rdma           divide RDMA cards among containers
events         Events about pods
devices        devices that are assigned by name: GPUs, devices of device plugins, and devices that a file lists
cpus           assign CPUs to single containers
registration   write the Node object and its Lease
owners         the Unix users of pods on a shared machine
surroundings   the objects that all pods of the machine share
"""
