"""CustomResourceDefinitions, and the custom resources that they define.

structural     structural schemas: defaults, pruning and validation
rules          x-kubernetes-validations
replicas       the fields that `/scale` reads
list_types     the errors of list types in a schema
structure      the reasons why a schema is not structural
field_path     the field to which a path in a definition leads
schema_check   the errors of a schema
check          the errors of a definition
crd            the strategies of definitions and of custom resources
"""
