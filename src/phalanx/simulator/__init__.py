"""The simulator: a simulated cluster with a virtual clock, which carries out the scheduler's plans and reports events
as a real cluster does.

workload  jobs with their true run times, and the nodes and node groups of the cluster
generate  workloads that are drawn at random, or made from a trace
readers   traces in published formats
schedule  the result of a run: when each job started and ended, and the nodes that it had
cluster   the simulated cluster
run       one run: a workload under one setup (a policy with its queues), with one seed of random numbers
measures  the measures of a schedule, such as waits and utilisation
report    reports of schedules as HTML pages with charts
"""
