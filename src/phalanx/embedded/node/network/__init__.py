"""Addresses, names, and who reaches whom.

addresses    of pods and services: parts of 127.0.0.0/8
forward      services with a cluster IP: connections passed on to a ready pod
hosts_file   a pod's /etc/hosts, which changes while programs read it
names        what a pod finds by name
naming       keeps all of these true
fence        what keeps users of a shared machine from each other's connections
"""
