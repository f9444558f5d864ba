"""The machine as a node.

settings       what an agent is told
machine        what the machine has
rdma           RDMA cards, divided among containers
events         what happened to a pod, told as events
devices        what else it has by name: device plugins, and devices that a file lists
registration   the Node and its lease
owners         as whom pods run, where it is shared
surroundings   what all pods of the machine share
"""
