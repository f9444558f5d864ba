"""Simulations from the command line.

workload_jobs     the jobs that a workload file lists
workload_nodes    the cluster that it describes
workload_recipe   jobs drawn from distributions
workload_file     the file as a whole
cells             many simulations side by side
options           the options of `phalanx simulate`
results           a row per trace, policy and way of estimating
tuning            the settings of a policy, searched on a log
"""
