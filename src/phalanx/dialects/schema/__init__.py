"""Parse Phalanx's own settings. The functions take mappings and return values of the package `model`. Each error
contains the path of the wrong field.

Parts, lowest first:

    fields       reads a mapping strictly: each field by name and type
    depth        rejects YAML that is too deep or too large for its loader
    queue        a queue
    policy       the settings of a whole cluster; a flavor; a reservation
    recording    events and decisions as plain values, and back
"""
