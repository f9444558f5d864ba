"""JobSet, run as its operator runs it.

Parts, lowest first:

    jobs        the Jobs that a JobSet is to have, and its Service
    controller  does that; what it has come to, from its Jobs: status, and what to make, change and delete
"""
