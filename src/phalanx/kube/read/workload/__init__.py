"""Read workloads, the objects that own pods. The parts, lowest first:

adapter     a batch/v1 Job, or one role of a framework's job, shown as a Job
role_types  check the types of the fields of a role
batch_job   a Job in the scheduler's terms: its pods, their shape, and whether it is suspended
ancestors   find the framework's job that a pod or another object belongs to
"""
