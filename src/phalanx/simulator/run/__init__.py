"""Runs.

setup      one way to schedule: a policy, its queues, and what it is told of run times
inflate    pods that come until they ask more than the cluster has
memory     the highest resident set of the process
stopwatch  how long the scheduler thinks
play       one run
feasible   jobs that can never run, found before a run
forward    what becomes of a live cluster's jobs if nobody submits anything more
"""
