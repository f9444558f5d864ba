"""Workloads.

workload   jobs, run times, and the cluster that a trace ran on
draw       distributions, the same numbers in every Python
rounds     preemption in rounds, by what is left of a job
formula    queue orders by a formula of estimate, size and submission
generate   workloads that are drawn, or made from a trace
"""
