"""What is left of what the cluster has.

Rooms:

    node_allocations    what every node is charged with: a second opinion right before a binding
    resource_quota      the ResourceQuotas of namespaces, and what counts against each
"""
