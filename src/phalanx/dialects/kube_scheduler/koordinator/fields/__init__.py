"""State how Phalanx uses the fields, labels and annotations of Koordinator.

Parts, lowest first:

    tables     the use of every field, label and annotation; lists the fields of an object that have no effect
    migration  lists the Phalanx equivalent of each object of a cluster, for users who plan a migration
"""
