"""Send jobs to other clusters, and follow the copies of the jobs there.

Parts, lowest first:

    keys             the queue of jobs to reconcile
    sending_cluster  the cluster whose jobs are sent (Kueue's manager)
    sent_jobs        the jobs that are meant for other clusters
    job_returns      return a job to the queue if its cluster cannot run it
    copy_writes      create and delete copies
    job_reconciler   creates, follows or deletes the copies of a job
"""
