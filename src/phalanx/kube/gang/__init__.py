"""The life of one gang: what its members declare, who sits where, when it may start and how it goes back. No I/O.

Rooms, lowest first:

    spec/       from the members of a gang to the `Job` that stands for them
    seats       which slot of a started gang has which node and which pod
    barrier     how long things may take, and why a start is taken back
    effects     what a gang may ask of the API
    seating     pods and their seats
    preemption  how a started gang is preempted, made smaller, and grows again
    lifecycle   waiting, starting, running, leaving
    restart     which starts a scheduler before this one had begun
"""
