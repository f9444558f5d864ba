"""A node of the embedded Kubernetes. Its pods are processes of this machine, or are simulated.

container   the process of one container, its files and its limits
images      images of containers on this machine's disk
network     addresses and names
pod         the requests, the status and the environment of one pod; functions without side effects, except those that
            write files
machine     the machine as a node: its resources, and its Node object
streams     exec, attach and port-forward
agent       start, watch and stop pods and their containers
simulated   nodes and pods that exist only in the API
run         run this machine as a node
"""
