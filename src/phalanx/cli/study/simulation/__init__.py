"""Simulations for `phalanx simulate`.

workload_nodes    read the nodes of a workload file
workload_file     read a workload file: its jobs, or the distributions from which jobs are generated
trace_source      read the workload of a simulation from a file, and change it as the options request
cells             run many simulations in parallel
options           the options of `phalanx simulate`
results           summarize results: one row for each trace, policy and kind of estimates
tuning            search for good settings of a policy on a log
"""
