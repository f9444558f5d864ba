"""The kinds that the server has, and the documents and paths by which clients find them.

As in Kubernetes (pkg/registry), the strategies of the kinds are also in this package.

    routing       paths, and the resources that they name
    openapi       the OpenAPI documents of the served kinds
    discovery     lists of groups, versions and resources; keeps these and the OpenAPI documents as bytes
    kinds         the strategies of built-in kinds: defaults, validation, and allowed changes
    crd           CustomResourceDefinitions and the kinds that they define
    value_types   the types that expressions see in objects of a kind
    builtin_kinds  the built-in kinds, by API group
    builtin       the list of built-in kinds
    metrics       the kinds of measured usage, which are not stored
"""
