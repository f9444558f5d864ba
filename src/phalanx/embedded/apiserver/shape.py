"""The shape of an object: what patches and apply must know of each place in it, and nothing else.

A `Shape` is one node of a schema: which fields it has, how its list items are told apart, who merges with whom. The
same node is made from the OpenAPI definitions of a built-in kind (`of_kind`) and from the structural schema of a
custom resource (`of_schema`), so strategic merge, server-side apply and pruning walk one structure. Children are
resolved when first asked for and then kept: a kind costs what its objects use of it, and recursive definitions
(JSONSchemaProps) are no special case.

Source of the extensions' meaning: sigs.k8s.io/structured-merge-diff/v6/schema, k8s.io/kube-openapi/pkg/schemaconv.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any, Literal

from phalanx.embedded.apiserver.definitions import definition

Sort = Literal["object", "map", "list", "scalar", "any"]

# Types that the definitions describe as something else than what they are to a merge.
SCALARS = frozenset(
    f"io.k8s.apimachinery.pkg.{name}"
    for name in ("api.resource.Quantity", "util.intstr.IntOrString", "apis.meta.v1.Time", "apis.meta.v1.MicroTime")
)
# The published definitions leave the defaults out; only those of list keys matter to a merge.
KEY_DEFAULTS: Mapping[tuple[str, str], Any] = {
    ("io.k8s.api.core.v1.ContainerPort", "protocol"): "TCP",
    ("io.k8s.api.core.v1.ServicePort", "protocol"): "TCP",
}


class Shape:
    """One node of a schema. `custom`: of a structural schema. `free`: fields that it does not name are kept."""

    __slots__ = (
        "_children",
        "_element",
        "_fields",
        "_item",
        "atomic",
        "custom",
        "free",
        "keys",
        "list_type",
        "merge_key",
        "name",
        "retains_keys",
        "sort",
        "source",
        "strategy",
    )

    def __init__(self, source: Mapping[str, Any], *, name: str = "", custom: bool = False) -> None:
        self.source, self.name, self.custom = source, name, custom
        self._fields: Mapping[str, Any] = source.get("properties") or {}
        self._item = _item_of(source)
        self.free = custom and bool(source.get("x-kubernetes-preserve-unknown-fields"))
        self.sort: Sort = _sort_of(source, name)
        self.list_type: str = source.get("x-kubernetes-list-type") or "atomic"
        self.keys: tuple[str, ...] = tuple(source.get("x-kubernetes-list-map-keys") or ())
        self.atomic = source.get("x-kubernetes-map-type") == "atomic" or (self.sort == "any" and not self.free)
        strategies = (source.get("x-kubernetes-patch-strategy") or "").split(",")
        self.retains_keys = "retainKeys" in strategies
        self.strategy = next((one for one in strategies if one in ("merge", "replace")), "")
        self.merge_key: str = source.get("x-kubernetes-patch-merge-key") or ""
        self._children: dict[str, Shape | None] = {}
        self._element: Shape | None = None

    def child(self, key: str) -> Shape | None:
        """The shape below a field of an object or a key of a map; None where the schema does not know it."""
        try:
            return self._children[key]
        except KeyError:
            found = self._resolve(key)
            if key in self._fields:  # keys of maps are the user's: not kept
                self._children[key] = found
            return found

    def _resolve(self, key: str) -> Shape | None:
        source = self._fields.get(key)
        if source is not None:
            return _resolved(source, self.custom)
        if self.sort == "map":
            return self.element
        return ANY if self.free else None

    @property
    def element(self) -> Shape:
        """The shape of a list's items or a map's values."""
        if self._element is None:
            self._element = ANY if self._item is None else _resolved(self._item, self.custom)
        return self._element

    def key_default(self, key: str) -> Any:
        """What a list item without this key is told apart by (`protocol` of a port)."""
        source = self.element._fields.get(key) or {}
        return source.get("default", KEY_DEFAULTS.get((self.element.name, key)))


def _sort_of(source: Mapping[str, Any], name: str) -> Sort:
    kind = source.get("type")
    if isinstance(kind, list):
        kind = kind[0]
    if name in SCALARS or source.get("x-kubernetes-int-or-string"):
        return "scalar"
    if kind == "array":
        return "list"
    if source.get("properties") or source.get("x-kubernetes-embedded-resource"):
        return "object"
    if isinstance(source.get("additionalProperties"), Mapping) or source.get("additionalProperties") is True:
        return "map"
    if kind in ("string", "integer", "number", "boolean"):
        return "scalar"
    return "any"


def _item_of(source: Mapping[str, Any]) -> Mapping[str, Any] | None:
    for key in ("items", "additionalProperties"):
        if isinstance(source.get(key), Mapping):
            found: Mapping[str, Any] = source[key]
            return found
    return None


def _resolved(source: Mapping[str, Any], custom: bool) -> Shape:
    reference = source.get("$ref")
    if reference is None:
        return Shape(source, custom=custom)
    name = reference.rpartition("/")[2]
    if len(source) == 1:
        return of_kind(name)
    return _with_own_extensions(name, source)


def _with_own_extensions(name: str, source: Mapping[str, Any]) -> Shape:
    """A reference whose field adds extensions of its own (map-type, patch strategy): they win over the definition's."""
    own = {key: value for key, value in source.items() if key.startswith("x-kubernetes-")}
    return Shape({**definition(name), **own}, name=name) if own else of_kind(name)


@cache
def of_kind(name: str) -> Shape:
    """The shape of a definition, `io.k8s.api.core.v1.Pod`. Raises KeyError for a name that does not exist."""
    return Shape(definition(name), name=name)


def of_schema(schema: Mapping[str, Any]) -> Shape:
    """The shape of a custom resource: its structural schema, with the `metadata` that every object has."""
    fields = {
        **(schema.get("properties") or {}),
        "apiVersion": {"type": "string"},
        "kind": {"type": "string"},
        "metadata": {"$ref": "#/$defs/io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"},
    }
    return Shape({**schema, "type": "object", "properties": fields}, custom=True)


# What lies below a free place: anything, merged key by key, its lists replaced as a whole.
ANY = Shape({"type": "object", "x-kubernetes-preserve-unknown-fields": True}, custom=True)
