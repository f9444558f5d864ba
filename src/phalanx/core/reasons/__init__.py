"""Reasons: why a job waits. A reason states the amounts that were compared, the jobs that hold the missing amount, and
the time at which enough of it is expected to be released.

Parts, lowest first:

    stated          the requested amounts as the jobs state them
    preempted       the reasons of victims and of preemptors
    never           the gang would not fit on empty nodes
    no_capacity     capacity is short now: the resource, the amounts, the jobs that hold it, and the time at which
                    enough of it is expected to be released
    explain         the choice among these reasons
    no_quota        a limit or the quota of a queue does not allow the start now
    queue_settings  the settings of a queue exclude the job, whatever runs
"""
