"""Simulations from the command line.

workload_nodes    the cluster that it describes
workload_file     the file as a whole; the jobs that a workload file lists; jobs drawn from distributions
cells             many simulations side by side
options           the options of `phalanx simulate`
results           a row per trace, policy and way of estimating
tuning            the settings of a policy, searched on a log
"""
