"""Manage addresses and names of pods and services, and the connections that are allowed between them.

forward      forward connections to services with a cluster IP to ready pods; use one socket for all services if the
             kernel supports it; load rules into the kernel
fence        prevent users of a shared machine from connecting to each other's programs
names        compute the names that a pod can resolve; change a pod's /etc/hosts while programs read it; assign
             addresses in 127.0.0.0/8 to pods and services
naming       keep names and services up to date
"""
