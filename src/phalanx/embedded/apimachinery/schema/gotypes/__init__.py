"""Facts of the Kubernetes API's Go types that the OpenAPI definitions leave out.

go_fields  how fields are printed: pointers, structs by value, omitempty
go_names   names that errors of decoding print: named types, embedded structs
internal   values as messages of validation show them: internal types, and differences of two
"""
