"""Find the errors in the list types of a schema (`x-kubernetes-list-type`). Server-side apply uses these types to
identify the items of lists.

Source: k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/validation (x-kubernetes-list-type).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from phalanx.embedded.apimachinery.meta.status import Cause, invalid_value, not_supported, required

Json = Mapping[str, Any]

_LIST_TYPES = ("atomic", "set", "map")


def list_type_causes(schema: Json, path: str) -> Iterator[Cause]:
    """Yield the errors in the list type of a schema, in its keys and in its items."""
    kind, keys = schema.get("x-kubernetes-list-type"), schema.get("x-kubernetes-list-map-keys") or ()
    if kind is not None and kind not in _LIST_TYPES:
        yield not_supported(f"{path}.x-kubernetes-list-type", kind, _LIST_TYPES)
    if keys and kind != "map":
        text, here = "must be map if x-kubernetes-list-map-keys is non-empty", f"{path}.x-kubernetes-list-type"
        yield required(here, text) if kind is None else invalid_value(here, kind, text)
    if kind is not None and (sort := schema.get("type", "")) != "array":
        text = "must be array if x-kubernetes-list-type is specified"
        yield invalid_value(f"{path}.type", sort, text) if sort else required(f"{path}.type", text)
    if kind == "map" and not keys:
        yield required(f"{path}.x-kubernetes-list-map-keys", "must not be empty if x-kubernetes-list-type is map")
    if kind == "set":
        yield from _set_item_causes(schema.get("items"), f"{path}.items")
    if kind != "map":
        return
    items = schema.get("items")
    if items is None:
        yield required(f"{path}.items", "must have a schema if x-kubernetes-list-type is map")
        return
    item: Json = items if isinstance(items, Mapping) else {}
    if item.get("type") != "object":
        text = "must be object if parent array's x-kubernetes-list-type is map"
        yield invalid_value(f"{path}.items.type", item.get("type", ""), text)
    if len(set(keys)) < len(keys):
        yield invalid_value(f"{path}.x-kubernetes-list-map-keys", list(keys), "must not contain duplicate entries")
    if any(key not in (item.get("properties") or {}) for key in keys) and item.get("properties"):
        text = "entries must all be names of item properties"
        yield invalid_value(f"{path}.x-kubernetes-list-map-keys", list(keys), text)
    for key in keys:
        if key not in (item.get("properties") or {}):
            continue
        if key not in (item.get("required") or ()) and "default" not in item["properties"][key]:
            text = "this property is in x-kubernetes-list-map-keys, so it must have a default or be a required property"
            yield required(f"{path}.items.properties[{key}].default", text)


def _set_item_causes(item: Any, path: str) -> Iterator[Cause]:
    """Yield the errors in the items of a set. The items of a set are compared as a whole."""
    sort = item.get("type") if isinstance(item, Mapping) else None
    word = {"array": "x-kubernetes-list-type", "object": "x-kubernetes-map-type"}.get(sort or "")
    if word and item.get(word) != "atomic" and (sort == "object" or item.get(word) is not None):
        text = "must be atomic as item of a list with x-kubernetes-list-type=set"
        yield invalid_value(f"{path}.{word}", item.get(word), text)
