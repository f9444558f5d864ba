"""Track the free capacity of the cluster. The parts:

node_allocations    the usage of every node, checked again right before a binding
foreign_pods        the usage of pods that belong to no gang
resource_quota      the ResourceQuotas of namespaces, and the usage of each quota
breaches            list objects again after a decision that overcommitted a node
node_parts          reserved parts of nodes
definition_reader   read all definitions of a dialect, and report the errors in single definitions
definition_overlay  nodes and pods with the changes that definitions make
dialect_claims      which dialect claims which gang
dialect_watch       translate the definitions of other schedulers, and find their settings for a gang
"""
