"""What is pending: requests in cells, cells and classes as columns, compared in each cycle with what is free.

Rooms, lowest first:

    cell_queue  the requests of a cell, in order
    cells       what cells are compared by, as columns; the order of those in strict queues
    bars        one number that bounds what a branch of the queue tree may be charged
    timers      when to look again though nothing happens
    capacity    by demand, how many pods the nodes hold at most
    headroom    by row of the queue tree, what may still be charged
    pending     cells and classes as they come and go, and what was found about them
"""
