"""Kubernetes' own gangs (`scheduling.k8s.io` Workload and PodGroup), as 1.35, 1.36 and 1.37 have them.

Parts, lowest first:

    kinds    its kinds, by version
    groups   finds the gang of a pod, applies its PodGroup, and writes the conditions of the PodGroup
    tables   the effect of every field
    dialect  the dialect itself, as `frame.Dialect`
"""
