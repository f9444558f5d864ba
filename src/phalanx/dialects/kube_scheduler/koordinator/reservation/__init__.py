"""Koordinator's Reservations: room on one node that is kept for certain pods, its owners.

A Reservation waits for room like a pod (the frame calls that pod a stand-in). Once it has a node, it is a part of that
node. Only its owners may use that part, and they prefer it to other room. The part stays after its owners have ended,
until the Reservation expires. With `allocateOnce` the Reservation ends when its first owner has arrived, and the owner
takes over its room. The unused room is not charged to any quota; the room that an owner uses is charged to the owner's
quota.

Parts, lowest first:

    spec      parses a Reservation; decides which pods may use it
    room      the stand-in that waits for room, and the part of the node that is kept
    statuses  writes its phase and conditions, like Koordinator's controller

Source: pkg/scheduler/plugins/reservation and pkg/util/reservation of v1.8.0.
"""
