"""Facts about the Go types of the Kubernetes API that the OpenAPI definitions do not contain.

go_fields  how fields are printed: pointers, structs by value, omitempty
go_names   names that errors of decoding print: named types, embedded structs
internal   values as messages of validation show them: internal types, and differences of two
"""
