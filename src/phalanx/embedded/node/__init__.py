"""A node of the embedded Kubernetes: pods as processes of this machine, or simulated.

container   one container's process, and what it is given
images      images of containers on this machine's disk
network     addresses and names
pod         one pod: what it asks for, where it stands, what it is told; pure, but for files
machine     the machine as a node: what it has, and what the API knows of it
streams     exec, attach and port-forward
agent       pods and their containers started, watched and stopped
simulated   nodes and pods that exist in the API alone
run         all of it in one process
"""
