"""Our own settings as people write them: mappings in, values of `model` out, and every complaint with its path.

Rooms, lowest first:

    fields       reading a mapping strictly: every field by name, with what it may be
    depth        YAML that is too deep for its loader
    flavor       a flavor
    queue        a queue
    reservation  a reservation
    policy       the settings of a whole cluster
    recording    events and decisions as plain values, and back
"""
