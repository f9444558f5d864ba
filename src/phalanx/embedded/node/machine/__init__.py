"""The machine as a node.

settings       the settings of an agent
machine        the resources of the machine
rdma           RDMA cards, divided among containers
events         Events about pods
devices        further named devices: device plugins, and devices that a file lists
cpus           CPUs that containers have for themselves
registration   the Node and its lease
owners         the Unix users of pods on a shared machine
surroundings   the objects that all pods of the machine share
"""
