"""Run this machine as a node.

hardware      find the machine's devices, and make them available to pods
confinement   isolate the pods of users: their containers, and their connections
assembly      create the environment that all pods of the node share
node_object   the labels, devices and conditions of the Node object
machine_node  run all parts of the node
"""
