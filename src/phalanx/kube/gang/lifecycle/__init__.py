"""The life cycle of one gang on the API: waiting, starting, running, leaving.

`GangLifecycle` receives the changes of the gang's members (`see_job` and the methods after it). The module `decisions`
carries out the core's decisions about the gang. The code in this folder does no I/O: it emits events and requests
writes through the gang's `Effects`. When a change of a member arrives, it is only stored. Later, `reconcile.advance`
reconciles the gang once for all stored changes.

Parts, lowest first:

    stages          waiting, starting, running, leaving, and the fields of each stage
    start_history   the earlier starts that failed, and the nodes and clusters that the gang avoids because of them
    deadlines       the times at which a start is undone, unless enough pods are bound, ready or running by then
    gang            a gang: its objects, its stage, its earlier starts
    interruptions   why a started gang must end: a member or the gang's dialect requires it
    requeue         the end of a start: how it is undone, and when the gang is queued again
    decisions       carries out the decisions about a gang
    reconcile       takes the next step of a gang, which depends on its stage
    restart         continues the starts that an earlier scheduler process made
"""
