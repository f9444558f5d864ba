"""Find the errors of an applied configuration against its kind's schema, in the words of structured-merge-diff.

An apply is refused for a field that the schema does not have, where every other write drops the field: what cannot
be owned must not look applied.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from phalanx.embedded.apimachinery.schema.field_set import path_text
from phalanx.embedded.apimachinery.schema.scalars import go_quoted
from phalanx.embedded.apimachinery.schema.schema import Type
from phalanx.embedded.apimachinery.schema.typed import Kind, below, item_element

_GO_TYPES = {str: "string", bool: "bool", int: "int64", float: "float64"}


def problems(value: Any, kind: Kind, path: tuple[str, ...] = ()) -> Iterator[str]:
    """Yield one line per problem: `.spec.nope: field not declared in schema`."""
    if kind is None or value is None:
        return
    match kind.shape:
        case "object" | "map":
            yield from _object_problems(value, kind, path)
        case "list":
            yield from _list_problems(value, kind, path)
        case "string" if not isinstance(value, str):
            yield _said(path, f"expected string, got &value.valueUnstructured{{Value:{_literal(value)}}}")
        case "boolean" if not isinstance(value, bool):
            yield _said(path, f"expected boolean, got &{{{_shown(value)}}}")
        case "integer" | "number" if isinstance(value, bool) or not isinstance(value, int | float):
            yield _said(path, f"expected numeric (int or float), got {_type(value)}")
        case "quantity" | "int-or-string" | "time" | "microtime" if isinstance(value, dict | list):
            yield _said(path, f"expected any scalar, got {_shown(value)}")


def _object_problems(value: Any, kind: Type, path: tuple[str, ...]) -> Iterator[str]:
    if not isinstance(value, dict):
        yield _said(path, f"expected map, got &{{{_shown(value)}}}")
        return
    free = kind.shape == "map" or kind.preserves_unknown
    for key, one in value.items():
        here = (*path, f"f:{key}")
        if not free and key not in kind.fields:
            yield _said(here, "field not declared in schema")
        else:
            yield from problems(one, below(kind, key), here)


def _list_problems(value: Any, kind: Type, path: tuple[str, ...]) -> Iterator[str]:
    if not isinstance(value, list):
        yield _said(path, f"expected list, got &{{{_shown(value)}}}")
        return
    seen: set[str] = set()
    for place, item in enumerate(value):
        element = f"i:{place}"
        if kind.list_type != "atomic":
            if said := _item_problem(item, kind):
                yield _said(path, f"element {place}: {said}")
                continue
            element = item_element(item, kind)
            if element in seen:
                yield _said(path, f"duplicate entries for key {path_text((element,))}")
            seen.add(element)
        yield from problems(item, kind.items, (*path, element))


def _item_problem(item: Any, kind: Type) -> str:
    """Return the reason for which a list item has no valid key; "" if it has one."""
    if kind.list_type != "map":
        return ""
    if item is None:
        return "associative list with keys may not have a null element"
    if not isinstance(item, dict):
        return "associative list with keys may not have non-map elements"
    missing = [key for key in kind.map_keys if item.get(key) is None and key not in kind.map_key_defaults]
    if not missing:
        return ""
    said = f'associative list with keys has an element that omits key field "{missing[0]}"'
    return f"{said} (and doesn't have default value)"


def _said(path: tuple[str, ...], text: str) -> str:
    return f"{path_text(path)}: {text}" if path else text


def _type(value: Any) -> str:
    return _GO_TYPES.get(type(value), "map[string]interface {}" if isinstance(value, dict) else "[]interface {}")


def _literal(value: Any) -> str:
    """Return a decoded value as Go's `%#v` has it."""
    match value:
        case dict():
            inside = ", ".join(f"{go_quoted(key)}:{_literal(value[key])}" for key in sorted(value))
            return f"map[string]interface {{}}{{{inside}}}"
        case list():
            return f"[]interface {{}}{{{', '.join(map(_literal, value))}}}"
        case str():
            return go_quoted(value)
    return _shown(value)


def _shown(value: Any) -> str:
    """Return a decoded value in Go's notation."""
    match value:
        case bool():
            return str(value).lower()
        case dict():
            return "map[" + " ".join(f"{key}:{_shown(value[key])}" for key in sorted(value)) + "]"
        case list():
            return "[" + " ".join(map(_shown, value)) + "]"
        case _:
            return str(value)
