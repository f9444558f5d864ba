"""The seats of a started gang, and its pods on them.

Rooms, lowest first:

    seat_table      which slot has which node and which pod
    gang_start      one start: what was decided, and what the core is told of it
    bind_barrier    when pods are bound, and what was refused
    seating         pods take seats; pods that nobody planned
    elastic         fewer pods, and more again
    staleness       too few of its bare pods run
"""
