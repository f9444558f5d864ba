"""What others are told, and what outlives the scheduler.

Rooms:

    usage                 past usage, kept in a ConfigMap
    dependency_outcomes   how jobs ended that others depend on, kept on those that wait
    queue_status          the status of Queue objects
    told                  a gang, as dialects are told of it
    dialect_answers       what dialects answer, written
"""
