"""The schemas of kinds: the types of fields, the rules for merging lists, and the decoding of objects.

`Type` is one node of a schema: either a definition in the published OpenAPI document (which the package
kubernetes-validate contains) or the structural schema of a custom resource. Nodes are created at their first use,
because a server uses only about a tenth of the 770 definitions.

Kube-apiserver decodes a request into a Go struct and encodes that struct again. `decode` has the same effect on a JSON
value: unknown fields are removed and reported, `null` fields are removed, quantities and times get their canonical
form, empty optional fields are removed, and structs by value are added. `decode` runs closures that are compiled once
for each definition, so that a Pod of 60 fields takes about 25 µs. `gotypes` has the facts about Go structs that the
definitions lack.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import cache, cached_property
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal

import msgspec

from phalanx.embedded.apimachinery.schema import scalars
from phalanx.embedded.apimachinery.schema.gotypes import go_fields, go_names
from phalanx.embedded.apimachinery.schema.scalars import DecodeError as DecodeError
from phalanx.embedded.apimachinery.schema.scalars import Decoder, mismatch

Shape = Literal[
    "object",
    "map",
    "list",
    "string",
    "boolean",
    "integer",
    "number",
    "quantity",
    "int-or-string",
    "time",
    "microtime",
    "any",
]

# How managers own a value. "leaf": as a whole. "map": each field or key separately. "list": each item separately.
# "free": an object like "map", and any other value like "leaf".
Owned = Literal["leaf", "map", "list", "free"]

SOURCE = "kubernetes-json-schema/v1.36.0-local/_definitions.json"
_SPECIAL: dict[str, Shape] = {
    "io.k8s.apimachinery.pkg.api.resource.Quantity": "quantity",
    "io.k8s.apimachinery.pkg.util.intstr.IntOrString": "int-or-string",
    "io.k8s.apimachinery.pkg.apis.meta.v1.Time": "time",
    "io.k8s.apimachinery.pkg.apis.meta.v1.MicroTime": "microtime",
    "io.k8s.apimachinery.pkg.apis.meta.v1.FieldsV1": "any",
    "io.k8s.apimachinery.pkg.runtime.RawExtension": "any",
}
_SCALARS: dict[str, Shape] = {"string": "string", "boolean": "boolean", "integer": "integer", "number": "number"}
_ZEROS: dict[Shape, object] = {"string": "", "integer": 0}
_PLAIN: dict[Shape, type] = {"string": str, "boolean": bool}


@cache
def definitions() -> Mapping[str, Mapping[str, Any]]:
    """Return all definitions by name (such as `io.k8s.api.core.v1.Pod`), as JSON schemas with x-kubernetes-*
    extensions."""
    # Only the file in the package is read. Importing the package would also import jsonschema, which is not needed.
    package = find_spec("kubernetes_validate")
    assert package is not None
    assert package.origin is not None
    raw = (Path(package.origin).parent / SOURCE).read_bytes()
    found: dict[str, Mapping[str, Any]] = msgspec.json.decode(raw)["$defs"]
    return found


@cache
def type_of(name: str) -> Type:
    """Return the node of a definition. Raises KeyError if there is no definition of that name."""
    return Type(definitions()[name], name=name)


def structural(schema: Mapping[str, object]) -> Type:
    """Return the node of a custom resource's `openAPIV3Schema`."""
    return Type(schema)


class Type:
    """A node of an OpenAPI schema: the schema of a field, of an item of a list, or of a whole object. `raw`: the schema
    as it is written at this place. Its x-kubernetes-* extensions may differ from those of the definition that it refers
    to."""

    def __init__(self, raw: Mapping[str, Any], *, name: str = "", go: str = "") -> None:
        self.raw, self.named = raw, go  # `go`: the Go type of a scalar, or of a list's items
        ref = raw.get("$ref")
        self.name: str = ref.rsplit("/", 1)[-1] if ref else name
        self.body: Mapping[str, Any] = definitions()[self.name] if ref else raw

    def __repr__(self) -> str:
        return f"Type({self.name or self.shape})"

    @cached_property
    def shape(self) -> Shape:
        """Return the kind of JSON value that the type has: object, list, string and so on."""
        if special := _SPECIAL.get(self.name):
            return special
        if self.body.get("x-kubernetes-int-or-string"):
            return "int-or-string"
        kind = self.body.get("type")
        if isinstance(kind, list):
            kind = kind[0]
        match kind:
            case "object" if "properties" in self.body:
                return "object"
            case "object" if isinstance(self.body.get("additionalProperties"), Mapping):
                return "map"
            case "object" if self.name and not self.body.get("x-kubernetes-preserve-unknown-fields"):
                return "object"
            case "array":
                return "list"
        return _SCALARS.get(str(kind), "any")

    @cached_property
    def fields(self) -> Mapping[str, Type]:
        """Return the declared fields of an object. All references to one definition share the same mapping."""
        if self.name and self.raw is not definitions().get(self.name):
            return type_of(self.name).fields
        kind, properties = self.kind, self.body.get("properties", {})
        if not self.name:
            return {key: Type(raw) for key, raw in properties.items()}
        return {key: Type(raw, go=go_names.NAMED.get(f"{kind}.{key}", "")) for key, raw in properties.items()}

    @cached_property
    def items(self) -> Type | None:
        """Return the type of the items of a list, or of the values of a map."""
        inner = self.body.get("items") if self.shape == "list" else self.body.get("additionalProperties")
        return Type(inner, go=self.named) if isinstance(inner, Mapping) else None

    def child(self, key: str) -> Type | None:
        """Return the type of a field of an object, or of a value of a map; None if none is declared."""
        return self.fields.get(key) or (self.items if self.shape in ("map", "any") else None)

    @cached_property
    def list_type(self) -> str:
        """Return the type of a list for server-side apply: `atomic` (the default), `set` or `map`."""
        return str(self._extension("list-type") or "atomic")

    @cached_property
    def map_keys(self) -> tuple[str, ...]:
        """Return the keys of an associative list (`x-kubernetes-list-map-keys`)."""
        return tuple(self._extension("list-map-keys") or ())

    @cached_property
    def map_type(self) -> str:
        """Return the type of an object or map for server-side apply: `granular` (the default), or `atomic` if managers
        own it as a whole."""
        return str(self._extension("map-type") or "granular")

    @cached_property
    def owned(self) -> Owned:
        """Return how managers own values of the type in server-side apply. The result is computed once, because every
        field of every new object needs it."""
        match self.shape:
            case "any" if self.preserves_unknown:
                return "free"
            case "object" | "map":
                return "leaf" if self.map_type == "atomic" else "map"
            case "list":
                return "leaf" if self.list_type == "atomic" else "list"
        return "leaf"

    @cached_property
    def merge_key(self) -> str:
        """Return the key by which a strategic merge patch matches the items of a list; empty if there is none."""
        return str(self._extension("patch-merge-key") or "")

    @cached_property
    def patch_strategy(self) -> tuple[str, ...]:
        """Return the patch strategies, a subset of `merge`, `replace` and `retainKeys`. If there is none, a patch
        replaces lists and merges objects."""
        return (
            tuple(str(self._extension("patch-strategy") or "").replace(" ", "").split(","))
            if self._extension("patch-strategy")
            else ()
        )

    @cached_property
    def map_key_defaults(self) -> Mapping[str, object]:
        """Return the defaults of the keys by which server-side apply identifies the items of an associative list. If an
        item leaves out a key that Go's struct always has, the key counts as empty."""
        if self.items is None:
            return {}
        item = self.items
        own = {k: f.raw["default"] for k, f in item.fields.items() if k in self.map_keys and "default" in f.raw}
        always = set(item.body.get("required", ())) if item.name else set()
        zeros = {k: _ZEROS[item.fields[k].shape] for k in always & set(self.map_keys) if item.fields[k].shape in _ZEROS}
        return zeros | (own or ({"protocol": "TCP"} if "protocol" in self.map_keys else {}))

    @cached_property
    def preserves_unknown(self) -> bool:
        return bool(self._extension("preserve-unknown-fields"))

    def _extension(self, name: str) -> Any:
        key = f"x-kubernetes-{name}"
        return self.raw.get(key, self.body.get(key))

    @cached_property
    def kind(self) -> str:
        """Return the last part of the definition's name: `PodSpec` for `io.k8s.api.core.v1.PodSpec`."""
        return self.name.rsplit(".", 1)[-1]

    @cached_property
    def go(self) -> str:
        """Return the name of the Go type that messages about decoding show."""
        match self.shape:
            case "object":
                return f"{self.name.rsplit('.', 2)[-2]}.{self.kind}" if self.name.count(".") > 1 else self.kind
            case "list":
                return f"[]{self.items.go if self.items else 'interface {}'}"
            case "map":
                inner = self.items.go if self.items else "interface {}"
                return "v1.ResourceList" if inner == "resource.Quantity" else f"map[string]{inner}"
            case "integer":
                return str(self.raw.get("format", "int64"))
            case "boolean":
                return "bool"
            case "number":
                return "float64"
            case "quantity":
                return "resource.Quantity"
            case _:
                return self.named or "string"

    @cached_property
    def decoder(self) -> Decoder:
        """Return the compiled decoder of the type: it takes a value and a list, appends the paths of unknown fields to
        the list, and returns the decoded value."""
        if self.name and self.raw is not definitions().get(self.name):
            return type_of(self.name).decoder
        return _compile(self)


def decode(root: Type, obj: dict[str, object]) -> list[str]:
    """Change `obj` into the stored form, in place. Return the paths of the unknown fields that were dropped. Raises
    DecodeError if a value has a wrong type.
    """
    unknown: list[str] = []
    root.decoder(obj, unknown)
    return unknown


# --- compilation ---------------------------------------------------------------------------------------------------


def _compile(node: Type) -> Decoder:
    match node.shape:
        case "object":
            return _object(node)
        case "map":
            return _map(node)
        case "list":
            return _list(node)
        case "string":
            return scalars.base64 if node.body.get("format") == "byte" else scalars.text(node.go)
        case "boolean":
            return scalars.boolean
        case "integer":
            return scalars.integer(node.go)
        case "number":
            return scalars.number
        case "quantity":
            return scalars.amount
        case "int-or-string":
            return scalars.int_or_string
        case "time":
            return scalars.time
        case "microtime":
            return scalars.microtime
        case "any":
            return _schema_or_other if node.kind in _SCHEMA_OR_OTHER else lambda value, _: value


_SCHEMA_OR_OTHER = ("JSONSchemaPropsOrArray", "JSONSchemaPropsOrBool")
_SCHEMA = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaProps"


def _schema_or_other(value: object, unknown: list[str]) -> object:
    """Return the decoded schema of `items` or `additionalProperties`, or the value itself if it is not an object.
    Kube-apiserver does not report unknown fields in such a schema."""
    return type_of(_SCHEMA).decoder(value, []) if value.__class__ is dict else value


def _object(node: Type) -> Decoder:
    """Return a decoder that checks an object and removes its unknown fields. Decoding spends most of its time in the
    loop of this decoder. So the loop itself accepts non-empty strings and `true`, for which `plain` has the expected
    class, instead of calling their decoders."""
    owner, go, fields = node.kind, node.go, node.fields
    plain = {key: known for key, child in fields.items() if (known := _plain_class(child))}
    decoders: dict[str, Decoder] = {}
    droppable = _droppable(node)
    fills = tuple(_fills(node))
    nulls = tuple(key for key in node.body.get("required", ()) if fields[key].shape in ("list", "map"))

    def decode_object(obj: object, unknown: list[str]) -> object:
        if obj.__class__ is not dict:
            raise mismatch(obj, go)
        gone: list[str] = []
        for key, value in obj.items():
            if value.__class__ is plain.get(key) and value:
                continue
            if value is None or key not in fields:
                gone.append(key)
                if key not in fields:
                    unknown.append(key)
                continue
            decoder = decoders.get(key) or decoders.setdefault(key, fields[key].decoder)
            seen = len(unknown) if unknown else 0
            try:
                new = decoder(value, unknown)
            except DecodeError as error:
                raise error.inside(go_names.path_of(owner, key), owner).at(f".{key}") from None
            if unknown:
                _prefix(unknown, seen, key)
            if not new and key in droppable:
                gone.append(key)
            elif new is not value:
                obj[key] = new
        for key in gone:
            del obj[key]
        for key, make in fills:
            if key not in obj:
                obj[key] = make()
        for key in nulls:
            obj[key] = obj.get(key) or None
        return obj

    return decode_object


def _plain_class(node: Type) -> type | None:
    """Return the Python class whose non-empty values this type accepts unchanged; None if there is none."""
    return _PLAIN.get(node.shape) if node.body.get("format") != "byte" else None


def _prefix(unknown: list[str], start: int, key: str) -> None:
    unknown[start:] = [f"{key}{path}" if path[:1] == "[" else f"{key}.{path}" for path in unknown[start:]]


def _droppable(node: Type) -> frozenset[str]:
    """Return the fields that are removed when empty: the fields with `omitempty` that are not pointers."""
    required = set(node.body.get("required", ()))
    known = node.name.startswith(go_fields.KNOWN)
    kept = go_fields.POINTERS.get(node.kind, frozenset()) | go_fields.NO_OMITEMPTY.get(node.kind, frozenset())
    found = set()
    for key, child in node.fields.items():
        if key in required or key in kept:
            continue
        if child.shape in ("list", "map") or (known and child.shape in ("string", "boolean", "integer")):
            found.add(key)
    return frozenset(found)


def _fills(node: Type) -> Iterable[tuple[str, Callable[[], Any]]]:
    """Yield the fields that are printed even if they are not set, each with the function that creates the zero
    value."""
    if not node.name.startswith(go_fields.KNOWN):
        return
    none: frozenset[str] = frozenset()
    required = set(node.body.get("required", ())) - go_fields.NOT_FILLED.get(node.kind, none)
    filled = required | go_fields.BY_VALUE.get(node.kind, none) | go_fields.NO_OMITEMPTY.get(node.kind, none)
    times = go_fields.NULL_TIMES.get(node.kind, none) | go_fields.NULLS.get(node.kind, none)
    for key, child in node.fields.items():
        if key in times or (key in required and child.shape in ("time", "microtime")):
            yield key, _nothing
        elif key in filled or (key in go_fields.ALWAYS_STRUCT and child.shape == "object"):
            yield key, _zero(child)


def _nothing() -> None:
    return None


def _zero(node: Type) -> Callable[[], Any]:
    """Return a function that creates the zero value of a type as Go prints it."""
    match node.shape:
        case "object":
            return lambda: node.decoder({}, [])
        case "string":
            return str
        case "integer" | "number" | "int-or-string":
            return int
        case "boolean":
            return bool
        case "quantity":
            return lambda: "0"
        case _:
            return _nothing


def _map(node: Type) -> Decoder:
    inner, go = node.items, node.go
    plain = None if inner is None else _plain_class(inner)
    decode = None if inner is None or inner.shape != "quantity" else scalars.resource_amount

    def decode_map(obj: object, unknown: list[str]) -> object:
        if obj.__class__ is not dict:
            raise mismatch(obj, go)
        for key, value in obj.items():
            if value.__class__ is plain:
                continue
            if inner is None:
                continue
            seen = len(unknown)
            try:
                obj[key] = _zero(inner)() if value is None else (decode or inner.decoder)(value, unknown)
            except DecodeError as error:
                raise error.at(f"[{key}]") from None
            if len(unknown) != seen:
                unknown[seen:] = [f"{key}.{path}" for path in unknown[seen:]]
        return obj

    return decode_map


def _list(node: Type) -> Decoder:
    inner, go = node.items, node.go
    plain = None if inner is None else _plain_class(inner)

    def decode_list(values: object, unknown: list[str]) -> object:
        if values.__class__ is not list:
            raise mismatch(values, go)
        for index, value in enumerate(values):
            if value.__class__ is plain or inner is None:
                continue
            seen = len(unknown)
            try:
                new = _zero(inner)() if value is None else inner.decoder(value, unknown)
            except DecodeError as error:
                raise error.at(f"[{index}]") from None
            if new is not value:
                values[index] = new
            if len(unknown) != seen:
                unknown[seen:] = [f"[{index}].{path}" for path in unknown[seen:]]
        return values

    return decode_list
