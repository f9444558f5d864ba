"""What others are told, and what outlives the scheduler.

Rooms:

    usage               past usage, kept in a ConfigMap
    queue_status        the status of Queue objects
    pod_group_status    the status of Volcano's PodGroups
"""
