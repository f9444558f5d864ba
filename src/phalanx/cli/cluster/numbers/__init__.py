"""The state of each queue and job, as the scheduler serves it: so commands need not compute it.

fetching   the client
answering  the answers for every user, without names of others
starting   when a job would start, if it were submitted now
"""
