"""Events and actions, into the state: the only code that changes it.

Rooms, lowest first:

    charging          what a job holds: on its nodes, in its queue's account, in its user's usage
    job_dependencies  what a job waits for besides capacity: times, other jobs, its array's turn
    lifecycle         the table of legal moves: (phase, event or action) -> phase
    node_groups       node groups: requested nodes, arrivals, failures
    cluster           nodes, pods of others, queues, flavors, reservations, policy, time
    fold              `fold` and `fold_plan`: the table event or action -> function; jobs
"""
