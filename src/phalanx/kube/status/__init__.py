"""What others are told, and what outlives the scheduler.

Rooms:

    usage               past usage, kept in a ConfigMap
    queue_status        the status of Queue objects
    told                a gang, as dialects are told of it
    dialect_answers     what dialects answer, written
"""
