"""Kubernetes' own gangs (`scheduling.k8s.io` Workload and PodGroup), as 1.35, 1.36 and 1.37 have them.

Rooms, lowest first:

    kinds    its kinds, by version
    groups   which pods are one gang, what their PodGroup says of it, and what is answered
    tables   what becomes of every field
    dialect  all of it, as `frame.Dialect`
"""
