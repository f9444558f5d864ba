"""State how Phalanx uses every field of Kueue's API.

Parts, lowest first:

    tables     the use of every field, label and annotation; the parts of an object that have no effect
    migration  the Phalanx equivalent of each object, before a migration
"""
