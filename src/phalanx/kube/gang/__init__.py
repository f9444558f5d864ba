"""The life of one gang: the declarations of its members, the slot of each pod, when the gang starts, and how a start is
taken back. No I/O.

Parts, lowest first:

    spec/            from the members of a gang to the `Job` that stands for them
    effects          what a gang may ask of the API
    objects          the API objects of one gang
    seats/           the seats of a started gang, and its pods on them
    departure        how a preempted gang, or one whose start is taken back, leaves its nodes
    recorded_starts  the starts that an earlier scheduler process made, as their objects record them
    lifecycle/       from stage to stage: what the decisions, the changes of members and the time do to a gang
"""
