"""Koordinator's Reservations: room on one node that is kept for owners, some of whom may be there already.

A Reservation waits for room like a pod (a stand-in, in words of the frame). Once it has a node it is a part of that
node, which only its owners may use, and rather use than others. A part that its owners leave is kept on, until the
Reservation expires; one that is for one owner alone (`allocateOnce`) is given up when that one has come, and its room
is the owner's. What is kept is charged to nobody's quota, what its owners use to theirs.

Rooms, lowest first:

    spec      what a Reservation says
    owners    which pods may use it
    room      how it waits for room, and what it keeps
    statuses  its phase and conditions, as Koordinator's controller writes them

Source: pkg/scheduler/plugins/reservation and pkg/util/reservation of v1.8.0.
"""
