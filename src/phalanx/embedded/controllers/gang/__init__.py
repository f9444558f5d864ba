"""Pods that start together, as scheduling.k8s.io/v1alpha2 says it.

pod_group    the Workload and the PodGroup of a Job
protection   PodGroups that pods name stay
"""
