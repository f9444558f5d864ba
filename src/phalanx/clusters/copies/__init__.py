"""The copies of jobs in other clusters: which kinds have copies, and what is in a copy.

Parts, lowest first:

    sendable    the kinds of jobs that can be sent
    content     the copy of a job in a worker: its content, its manager, its status; a job that is meant for
                another cluster
"""
