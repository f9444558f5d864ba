"""Compute the JSON patch (RFC 6902) from one JSON value to another, without operations that change nothing.

Objects are compared field by field. Every other value, also a list, is replaced as a whole, because the policies change
only fields.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

Operation = dict[str, Any]


def difference(before: Any, after: Any) -> list[Operation]:
    return list(_between(before, after, ""))


def _between(before: Any, after: Any, path: str) -> Iterator[Operation]:
    if before is after:
        return
    if not isinstance(before, dict) or not isinstance(after, dict):
        if type(before) is not type(after) or before != after:
            yield {"op": "replace", "path": path, "value": after}
        return
    for key in before.keys() - after.keys():
        yield {"op": "remove", "path": f"{path}/{_escaped(key)}"}
    for key, value in after.items():
        below = f"{path}/{_escaped(key)}"
        if key in before:
            yield from _between(before[key], value, below)
        else:
            yield {"op": "add", "path": below, "value": value}


def _escaped(key: str) -> str:
    return key.replace("~", "~0").replace("/", "~1")
