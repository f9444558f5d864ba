"""The types of fields, the formats of values, and the decoding of objects by their schema.

quantity       amounts: 500m, 1Gi
formats        names, labels, ports, addresses
string_format  `format` in the schemas of custom resources
gotypes/       what Go's types know and the OpenAPI definitions leave out
scalars        single values, decoded as Go does
schema         OpenAPI definitions, and objects decoded by them
field_set      sets of paths to fields
typed          objects compared and merged field by field; what keeps a configuration from being one of its kind
"""
