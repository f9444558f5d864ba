"""The life of one gang: the declarations of its members, the slot of each pod, when the gang starts, and how a start is
taken back. No I/O.

Parts, lowest first:

    spec/       from the members of a gang to the `Job` that stands for them
    effects     what a gang may ask of the API
    objects     the API objects of one gang
    seats/      the seats of a started gang, and its pods on them
    departure   how a preempted gang, or one whose start is taken back, leaves its nodes
    stages      waiting, starting, running, leaving, and what is true in each; when a start is taken back, unless
                enough of its pods are bound, ready or running
    lifecycle   from stage to stage; when a gang that left is requeued
    restart     the starts that an earlier scheduler process had begun
"""
