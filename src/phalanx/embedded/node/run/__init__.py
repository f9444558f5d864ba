"""Run this machine as a node.

hardware      find the machine's devices, and offer them to pods
confinement   isolate the pods of users: their containers, and their connections
assembly      put together what all pods of the node share
node_object   what the Node object reports: labels, devices, conditions
machine_node  run all parts of the node
"""
