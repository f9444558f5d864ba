"""What is left of what the cluster has.

Rooms:

    node_allocations    what every node is charged with: a second opinion right before a binding
    foreign_pods        what pods hold that no gang is charged for
    resource_quota      the ResourceQuotas of namespaces, and what counts against each
    breaches            what was decided on is listed again when a decision broke a promise
    node_parts          parts of nodes that are kept for some pods
    dialect_watch       definitions of other schedulers, and what they say of a gang
"""
