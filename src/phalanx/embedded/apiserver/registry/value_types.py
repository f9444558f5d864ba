"""The types that the fields of objects have in CEL expressions. The types are derived from the kind's published
definition or from its structural schema.

Source: k8s.io/apiserver/pkg/cel/common (SchemaDeclType). If the name of a field is a reserved word of CEL, expressions
can use the escaped name or the name itself.
"""

from __future__ import annotations

from functools import partial

from phalanx.embedded.apimachinery.expressions.type_check import DYN, Type, TypeShape
from phalanx.embedded.apimachinery.meta.resource import Resource
from phalanx.embedded.apimachinery.schema import schema
from phalanx.embedded.apiserver.registry.crd import rules

_OBJECT_META = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"
_SCALARS: dict[schema.Shape, Type] = {
    "boolean": "bool",
    "integer": "int",
    "number": "double",
    "time": "timestamp",
    "microtime": "timestamp",
}


def type_of_kind(resource: Resource) -> Type:
    """Return the type that the variable `object` has in expressions about objects of this kind."""
    if resource.schema_name:
        return _type_of(schema.type_of(resource.schema_name))
    own = rules.type_of(resource.schema or {})
    return TypeShape(partial(_custom_field, own)) if isinstance(own, TypeShape) else DYN


def _custom_field(own: TypeShape, name: str) -> Type | None:
    if name in ("apiVersion", "kind"):
        return "string"
    return _type_of(schema.type_of(_OBJECT_META)) if name == "metadata" else own.field(name)


def _type_of(node: schema.Type) -> Type:
    match node.shape:
        case "object":
            return TypeShape(partial(_field, node))
        case "list" if node.items is not None:
            return ("list", _type_of(node.items))
        case "map" if node.items is not None:
            return ("map", "string", _type_of(node.items))
        case "string":
            return "bytes" if node.body.get("format") == "byte" else "string"
    return _SCALARS.get(node.shape, DYN)


def _field(node: schema.Type, name: str) -> Type | None:
    found = node.fields.get(rules.unescaped(name))
    return None if found is None else _type_of(found)
