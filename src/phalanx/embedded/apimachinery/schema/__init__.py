"""The types of fields, the formats of values, and the decoding of objects by their schema.

quantity       amounts: 500m, 1Gi
formats        names, labels, ports, addresses
string_format  the values of `format` in the schemas of custom resources
gotypes/       facts about Go's types that the OpenAPI definitions leave out
scalars        decodes single values as Go does
schema         the OpenAPI definitions; decodes objects by these definitions
field_set      sets of paths to fields
typed          compares and merges objects field by field; finds the errors of an applied configuration
"""
