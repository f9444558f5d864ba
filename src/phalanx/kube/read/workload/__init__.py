"""Read workloads, the objects that own pods. The parts, lowest first:

role_types    check the types of the fields of a role
object_types  find the field of a framework's job that has a wrong type
adapter       a batch/v1 Job, or one role of a framework's job, shown as a Job
batch_job     a Job in the scheduler's terms: its pods, their shape, and whether it is suspended
ancestors     find the framework's job that a pod or another object belongs to
"""
