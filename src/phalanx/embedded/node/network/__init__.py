"""Addresses and names of pods and services, and the connections that are allowed between them.

addresses    the addresses of pods and services: parts of 127.0.0.0/8
nft          rules of the kernel
redirect     all services behind one socket, if the kernel supports it
fence        keep users of a shared machine from connecting to each other's programs
forward      services with a cluster IP: connections passed on to a ready pod
hosts_file   a pod's /etc/hosts, which changes while programs read it
names        the names that a pod can resolve
naming       keep all of these up to date
"""
