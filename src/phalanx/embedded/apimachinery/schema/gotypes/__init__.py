"""Facts about the Go types of the Kubernetes API that the OpenAPI definitions do not contain.

go_fields  the properties that determine how Go prints fields: pointers, structs by value, omitempty
go_names   names in decoding errors: named types, embedded structs
internal   values in validation messages: internal types, and differences of two values
"""
