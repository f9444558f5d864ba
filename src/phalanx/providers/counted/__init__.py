"""Providers whose backend is called with the number of nodes that a group should have, and lists the nodes that the
group has.

calls           the two calls as JSON documents; the provider for all backends that are called with a number of nodes
called          backends that are programs or web servers
machines        Machines of Cluster API and OpenShift
suspend         nodes that Slurm's programs switch on and off
cloud_protocol  the client of cloud providers that serve the Cluster Autoscaler's protocol externalgrpc: addresses,
                messages and calls
cloud           the instances of a cloud provider
"""
