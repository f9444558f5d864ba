"""The dialect for Kubernetes' own gangs: the kinds Workload and PodGroup of `scheduling.k8s.io` in Kubernetes 1.35,
1.36 and 1.37.

Parts, lowest first:

    kinds    its kinds, by version
    groups   finds the gang of a pod, applies its PodGroup, and writes the conditions of the PodGroup
    tables   the use of every field
    dialect  the interface that every dialect implements (`frame.dialect`), for Kubernetes' own gangs
"""
