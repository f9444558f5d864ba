"""Runs.

setup     one way to schedule: a policy with its queues
play      one run; the peak memory of the process; the time of each decision
feasible  find jobs that can never run, before a run
forward   simulate the jobs of a live cluster, without further submissions
"""
