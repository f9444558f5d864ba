"""Kinds about nodes, and the fields that determine where a pod may run.

fields      the types of these fields: affinities, tolerations, taints, spread constraints
scheduling  the checks of these fields; PriorityClass and RuntimeClass
node        Node, Namespace and Lease
"""
