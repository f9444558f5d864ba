"""Fold events and actions into the cluster state, that is, apply them to it. No other code changes the state.

Parts, lowest first:

    charging          the holdings of a job: on its nodes, in its queue's account, in its user's usage
    job_dependencies  what a job waits for besides capacity: times, other jobs, a slot of its array
    transitions       the table of legal transitions: (phase, event or action) -> phase
    node_groups       node groups: requested nodes, arrivals, failures
    cluster_events    nodes, foreign pods, queues, flavors, reservations, policy, time
    memory            what one cycle remembers for the next: `Memory` and `Decision`
    fold              `fold` and `fold_plan`, with the function for each event and action; events about jobs"""
