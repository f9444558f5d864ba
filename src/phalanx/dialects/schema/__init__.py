"""Parses Phalanx's own settings: takes mappings, returns values of `model`; each error carries the path of its field.

Parts, lowest first:

    fields       reads a mapping strictly: each field by name and type
    depth        rejects YAML that is too deep or too large for its loader
    flavor       a flavor
    queue        a queue
    reservation  a reservation
    policy       the settings of a whole cluster
    recording    events and decisions as plain values, and back
"""
