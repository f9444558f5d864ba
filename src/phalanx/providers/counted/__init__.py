"""Providers whose backend is given the number of nodes that a group should have, and lists the nodes that it has.

calls           the two calls as JSON documents; a provider whose backend goes by a number of nodes
called          a program that is called; a web server that is called
machines        Machines of Cluster API and OpenShift
suspend         nodes that Slurm's programs switch on and off
cloud_protocol  where a cloud provider is that speaks the Cluster Autoscaler's protocol externalgrpc; the messages of
                this protocol; the calls of this protocol
cloud           the instances of a cloud provider
"""
