"""Addresses and names of pods and services, and the connections that are allowed between them.

forward      services with a cluster IP: connections passed on to a ready pod; all services behind one socket, if the
             kernel supports it; rules of the kernel
fence        keep users of a shared machine from connecting to each other's programs
names        the names that a pod can resolve; a pod's /etc/hosts, which changes while programs read it; the addresses
             of pods and services: parts of 127.0.0.0/8
naming       keep all of these up to date
"""
