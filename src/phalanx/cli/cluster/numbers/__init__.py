"""Figures about each queue and job that the scheduler computes and serves, so that commands need not compute them.

fetching   request the figures from the scheduler
answering  compute the figures for every user, without the names of other users' jobs
starting   compute when a job would start if it were submitted now
"""
