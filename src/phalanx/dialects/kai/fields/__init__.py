"""The use of KAI's fields.

Parts, lowest first:

    tables     the use of every field, label and annotation
    notes      the parts of an object that have no effect
    migration  the Phalanx equivalent of each object, before a migration
"""
