"""Decide which nodes of node groups are requested for waiting jobs, and which empty nodes are released. All functions
are pure.

In each step of the scheduler's loop the core decides first. Then `cycle.with_nodes` decides about nodes.

Parts, lowest first:

    growth     the cluster with the nodes that could be requested: which of them a gang needs; the cheapest numbers of
               nodes that let a gang fit
    on_demand  nodes that another program chooses for one job
    waiting    the requests that wait for capacity alone, in order; the jobs that their quotas admit together, for
               autoscalers that add nodes for pods
    cycle      the requests and releases of nodes in one cycle; empty nodes that are released
"""
