"""Decide which nodes of node groups are requested for waiting jobs, and which empty nodes are released. The functions
make no calls to providers.

In each step of the scheduler's loop the core decides first. Then `cycle.with_nodes` decides about nodes.

Parts, lowest first:

    growth     find the cheapest nodes that must be requested so that a gang fits
    on_demand  groups for which another program chooses the nodes of one job
    waiting    the requests that wait only for capacity, in order; the jobs that their quotas admit together, for
               autoscalers that add nodes for pods
    cycle      decide in each cycle which nodes are requested and which empty nodes are released
"""
