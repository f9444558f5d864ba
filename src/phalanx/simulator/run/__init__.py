"""Run simulations.

setup     one way to schedule: a policy with its queues, and the rate at which pods are created
play      one run, with the time of each decision and the peak memory of the process
feasible  find jobs that can never run, before a run
forward   simulate the jobs of a live cluster, without further submissions
"""
