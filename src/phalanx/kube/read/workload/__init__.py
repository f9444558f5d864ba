"""Workloads that own pods.

Rooms, lowest first:

    adapter     a batch/v1 Job, or one role of a framework's job, shown as a Job
    batch_job   a Job as Phalanx sees it: how many pods it needs, of which shape, and who has suspended it
    ancestors   which framework's job a pod, or another object, was made for
"""
