"""The state of each queue and job, as the scheduler serves it: so commands need not compute it.

fetching   the client
answering  the answers for every user, without the names of other users' jobs
starting   when a job would start, if it were submitted now
"""
