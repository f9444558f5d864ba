"""Addresses, names, and who reaches whom.

addresses    of pods and services: parts of 127.0.0.0/8
nft          rules of the kernel
redirect     all services behind one socket, where the kernel can be told to
fence        what keeps users of a shared machine from each other's connections
forward      services with a cluster IP: connections passed on to a ready pod
hosts_file   a pod's /etc/hosts, which changes while programs read it
names        what a pod finds by name
naming       keeps all of these true
"""
