"""A simulated world with a virtual clock: it executes plans and reports events, as a cluster does.

workload  jobs with their true run times, and the cluster; and the node groups of a cluster
generate  workloads that are drawn, or made from a trace
readers   traces in published formats
schedule  the result of a run: starts, ends and allocations of all jobs
cluster   the simulated cluster
run       one run: a workload under one setup with one seed
measures  the measures of a schedule
report    pages and pictures
"""
