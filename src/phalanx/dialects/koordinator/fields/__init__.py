"""Koordinator's fields: what becomes of each.

Rooms, lowest first:

    tables     what becomes of every field, label and annotation
    notes      what of an object has no effect
    migration  what each object of a cluster becomes, before it moves
"""
