"""Numbers about each queue and job that the scheduler serves, so that commands need not compute them.

fetching   the client
answering  the answers for every user, without the names of other users' jobs
starting   when a job would start, if it were submitted now
"""
