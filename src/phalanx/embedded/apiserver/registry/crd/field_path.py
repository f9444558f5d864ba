"""The JSON paths in a definition, which name fields, such as `.spec.replicas` or `['a.b'].c`. Source: ValidFieldPath of
k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

Json = Mapping[str, Any]

_TOKEN = re.compile(r"'(?:[^'\\]|\\.)*'|[.\[\]]|[^.\[\]]+")
_NOT_THERE = "does not refer to a valid field"
_END = "unexpected end of JSON path"


def path_problem(path: str, schema: Json, *, brackets: bool = True) -> str:
    """Return the reason why a path leads to no field of a schema; "" if it leads to a field."""
    found = field_at(path, schema, brackets=brackets)
    return found if isinstance(found, str) else ""


def field_at(path: str, schema: Json, *, brackets: bool = True) -> Json | str:
    """Return the schema of the field at a path, or the reason why there is no such field."""
    tokens = iter(_TOKEN.findall(path))
    for sign in tokens:
        if sign == "." or (sign == "[" and brackets):
            found = _step(sign, tokens, schema)
            if isinstance(found, str):
                return found
            schema = found
        else:
            return "array notation is not allowed" if sign == "[" else f"expected [ or . but got: {sign}"
    return schema


def _step(sign: str, tokens: Iterator[str], schema: Json) -> Json | str:
    key = next(tokens, None)
    if key is None:
        return _END
    if sign == "[":
        if len(key) < 2 or key[0] != "'" or key[-1] != "'":
            return f"expected single quoted string but got {key}"
        if (end := next(tokens, None)) != "]":
            return _END if end is None else f"expected ] but got {end}"
        key = re.sub(r"\\(.)", r"\1", key[1:-1])
    properties, extra = schema.get("properties"), schema.get("additionalProperties")
    if properties is not None:
        return properties[key] or {} if key in properties else _NOT_THERE
    return extra if isinstance(extra, Mapping) else _NOT_THERE
