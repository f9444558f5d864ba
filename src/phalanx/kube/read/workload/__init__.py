"""Workloads that own pods.

Rooms, lowest first:

    adapter     a batch/v1 Job, or one replica type of a training job, shown as a Job
    batch_job   a Job as Phalanx sees it: how many pods it needs, of which shape, and who has suspended it
"""
