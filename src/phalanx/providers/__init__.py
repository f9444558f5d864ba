"""Providers of node groups. At the scheduler's request, a provider adds nodes to the cluster or removes nodes from it.

Parts, lowest first:

    provider    the protocol of a provider: `scale` and `status`; only empty nodes are removed
    counted     providers that are called with a number of nodes: programs, web servers, Machines, Slurm's programs,
                clouds
    simulated   nodes that exist only in the API, with delays, failures and losses
    autoscaler  nodes that the Cluster Autoscaler or Karpenter adds for unschedulable pods
    provision   make and repeat the calls to providers; report their answers as events
"""
