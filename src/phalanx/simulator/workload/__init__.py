"""Workloads.

workload     jobs, their run times, and the cluster of a trace; the node groups of a cluster, with the faults of their
             provider
policies     preemption in rounds, by the remaining work of a job; queue orders by a formula of estimate, size and
             submission
generate     workloads that are drawn, or made from a trace; distributions with the same numbers in every Python
             version
"""
