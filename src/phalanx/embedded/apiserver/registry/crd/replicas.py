"""The fields that `/scale` of a custom resource reads: two numbers of replicas and the selector.

Each write of a custom resource checks these fields. Source: ValidateScaleSpec of
k8s.io/apiextensions-apiserver/pkg/registry/customresource, and the accessors of
k8s.io/apimachinery/pkg/apis/meta/v1/unstructured.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from phalanx.embedded.apimachinery.meta.status import Cause, invalid_value

_REPLICAS = ("specReplicasPath", "statusReplicasPath")
_GO_TYPES = {
    str: "string",
    bool: "bool",
    int: "int64",
    float: "float64",
    list: "[]interface {}",
    dict: "map[string]interface {}",
}


def replica_causes(obj: Mapping[str, object], scale: Mapping[str, Any]) -> Iterator[Cause]:
    """Yield the errors in the fields that `scale` names. `scale`: the subresource in the definition. A field may be
    absent."""
    for key in _REPLICAS:
        if path := scale.get(key):
            value, mistake = _found(obj, path, int, "int64")
            if mistake:
                yield invalid_value(path, 0, mistake)
            elif value is not None and value < 0:
                yield invalid_value(path, value, "should be a non-negative integer")
    if path := scale.get("labelSelectorPath"):
        _, mistake = _found(obj, path, str, "string")
        if mistake:
            yield invalid_value(path, "", mistake)


def _found(obj: Mapping[str, object], path: str, wanted: type, word: str) -> tuple[Any, str]:
    """Return the value at a path of plain keys, and an error message. The value is None if it is missing or wrong. The
    message is "" if the value is missing or correct. `wanted`: the type of the value. `word`: the name of the type in
    messages."""
    value: Any = obj
    for key in path.removeprefix(".").split("."):
        if value is None:
            return None, ""
        if not isinstance(value, dict):
            return None, _mistake(path, value, "map[string]interface{}")
        value = value.get(key)
    if value is not None and type(value) is not wanted:
        return None, _mistake(path, value, word)
    return value, ""


def _mistake(path: str, value: object, wanted: str) -> str:
    return f"{path} accessor error: {_as_go(value)} is of the type {_GO_TYPES[type(value)]}, expected {wanted}"


def _as_go(value: object) -> str:
    """Return a value as Go prints it with `%v`."""
    match value:
        case None:
            return "<nil>"
        case str():
            return value
        case list():
            return "[" + " ".join(map(_as_go, value)) + "]"
        case dict():
            return "map[" + " ".join(f"{key}:{_as_go(value[key])}" for key in sorted(value)) + "]"
        case float() if value.is_integer():
            return str(int(value))
        case _:
            return msgspec.json.encode(value).decode()
