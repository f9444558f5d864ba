"""The copies of jobs in other clusters: the kinds of jobs that can be copied, and the content of a copy.

Parts, lowest first:

    sendable    the kinds of jobs that can be sent
    content     build the copy of a job for a worker, and read its manager and status; `Sent`, a job that is meant for
                another cluster
"""
