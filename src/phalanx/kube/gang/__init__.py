"""Manage the life cycle of a gang (one job with all of its Jobs and pods). The modules read the options of its members,
start it, assign each pod to a *seat* (a place with a planned node), and undo a start (suspend the Jobs again and queue
the gang). This folder does no I/O.

Parts, lowest first:

    spec/            builds the core's `Job` of a gang from the gang's members
    effects          the writes that a gang may request from the API
    objects          the API objects of one gang
    seats/           the seats of a started gang (a seat is a place for one pod, with its node), and the pods on them
    departure        how a preempted gang, or one whose start is undone, leaves its nodes
    recorded_starts  the starts that an earlier scheduler process made, as their objects record them
    lifecycle/       moves a gang from stage to stage, when a decision, a change of a member or a deadline requires it
"""
