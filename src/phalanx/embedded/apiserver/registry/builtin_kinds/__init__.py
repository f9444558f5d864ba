"""The built-in kinds, in the order in which discovery lists them.

form       functions that create the description of a kind
core       the core API group
workloads  `apps` and `batch`
cluster    networking, nodes, policies, scheduling
drivers    `storage.k8s.io` and `resource.k8s.io`
api        definitions of kinds, admission, rights
"""
