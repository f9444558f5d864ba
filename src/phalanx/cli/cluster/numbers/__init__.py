"""Numbers about each queue and job. The scheduler computes and serves them, so that commands need not compute them.

fetching   request the numbers from the scheduler
answering  compute the numbers for every user, without the names of other users' jobs
starting   compute when a job would start if it were submitted now
"""
