"""Fold events and actions into the cluster state, that is, apply them to it. No other code changes the state.

Parts, lowest first:

    charging          the holdings of a job: on its nodes, in its queue's account, in its user's usage
    job_dependencies  conditions for a start other than capacity: times, other jobs, the cap of the job's array
    transitions       the table of legal transitions: (phase, event or action) -> phase
    node_groups       node groups: requested nodes, arrivals, failures
    cluster_events    nodes, foreign pods, queues, flavors, reservations, policy, time
    memory            results of one cycle that the next cycle uses: `Memory` and `Decision`
    fold              `fold` and `fold_plan`, with the function for each event and action; events about jobs"""
