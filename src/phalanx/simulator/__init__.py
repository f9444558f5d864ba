"""A simulated world with a virtual clock: it executes plans and reports events, as a cluster does.

workload  jobs with their true run times, and the nodes and node groups of the cluster
generate  workloads that are drawn at random, or made from a trace
readers   traces in published formats
schedule  the result of a run: starts, ends and allocations of all jobs
cluster   the simulated cluster
run       one run: a workload under one setup (a policy with its queues), with one seed of random numbers
measures  the measures of a schedule, such as waits and utilisation
report    reports of schedules as HTML pages with charts
"""
