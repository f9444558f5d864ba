"""The effect of Koordinator's fields.

Parts, lowest first:

    tables     the effect of every field, label and annotation; lists the fields of an object that have no effect
    migration  reports the result for each object of a cluster, before a migration
"""
