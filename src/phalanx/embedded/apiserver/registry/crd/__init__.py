"""CustomResourceDefinitions, and the custom resources that they define.

structural     schemas: structural ones, their defaults, pruning, validation
rules          x-kubernetes-validations
replicas       the fields that `/scale` reads
list_types     the errors of list types in a schema
structure      what keeps a schema from being structural
field_path     the field that a path of a definition leads to
schema_check   the errors of a schema
check          the errors of a definition
crd            the strategies of definitions and of their objects
"""
