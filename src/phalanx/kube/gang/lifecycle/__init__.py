"""The life cycle of one gang on the API: waiting, starting, running, leaving.

A gang receives the changes of its members (`GangLifecycle.see_job` and its neighbours) and the decisions about it
(`decisions`). It does no I/O: it emits events and requests writes through its `Effects`, whose answers come back to the
requesting parts. To receive a change is cheap. `reconcile.advance` reconciles the gang, once for all changes that came
together.

Parts, lowest first:

    stages          waiting, starting, running, leaving, and what is true in each
    start_history   the earlier starts that failed, and the nodes and clusters that are avoided since
    deadlines       when a start is taken back, unless enough of its pods are bound, ready or running
    gang            a gang: its objects, its stage, its earlier starts
    interruptions   why a started gang must not go on, by its members and its dialect
    requeue         the end of a start: how it is taken back, and when the gang is queued again
    decisions       carries out the decisions about a gang
    reconcile       the next step of a gang, by its stage
    restart         continues the starts that an earlier scheduler process made
"""
