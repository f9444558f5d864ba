"""Operations on values with a schema: find the set of a value's fields, compare two values, merge them, and find
errors.

Server-side apply uses these operations on lists and maps. There are three cases. A *leaf* (a scalar, or an atomic
object or list) is owned and replaced as a whole. In an object or map, every key has its own owners. In a list of type
`map` or `set`, every item has its own owners, and is identified by its keys or its value. Below
`x-kubernetes-preserve-unknown-fields`, objects are owned key by key and lists are leaves. The types of fields there are
None.

Sets of fields have the form that `field_set` describes. Source: sigs.k8s.io/structured-merge-diff/v6/typed.

`problems` finds the errors of an applied configuration against its kind's schema, with the messages of
structured-merge-diff.

An apply with a field that the schema does not have is refused, whereas every other write drops the field. The reason is
that no manager can own such a field, so an apply must not seem to have set it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import msgspec

from phalanx.embedded.apimachinery.schema.field_set import (
    MEMBER,
    SELF,
    Node,
    in_order,
    is_member,
    node_of,
    path_text,
    union,
)
from phalanx.embedded.apimachinery.schema.scalars import go_quoted
from phalanx.embedded.apimachinery.schema.schema import Type

Kind = Type | None
Form = Literal["leaf", "map", "list"]
ABSENT: object = object()
_encode = msgspec.json.encode


def form_of(value: object, kind: Kind) -> Form:
    """Return how managers own a value: as a "leaf", as a "map" with separate keys, or as a "list" with separate
    items."""
    owned = kind.owned if kind is not None else "free"
    if owned == "free":
        return "map" if isinstance(value, dict) else "leaf"
    return owned


def below(kind: Kind, key: str) -> Kind:
    """Return the type of the field or map key `key`."""
    return kind.child(key) if kind is not None else None


def item_element(item: object, kind: Type) -> str:
    """Return the path element of a list item, such as `k:{"name":"c"}` or `v:"x"`."""
    if kind.list_type == "map" and isinstance(item, dict):
        defaults = kind.map_key_defaults
        keys = {key: item[key] if key in item else defaults.get(key) for key in kind.map_keys}
        return "k:" + _encode(keys, order="deterministic").decode()
    return "v:" + _encode(item).decode()


def _items(value: object, kind: Type) -> dict[str, object]:
    """Return a mapping from path elements to the items of a list. If there are duplicate items, only the first is in
    the result."""
    found: dict[str, Any] = {}
    for item in value if isinstance(value, list) else ():
        found.setdefault(item_element(item, kind), item)
    return found


def _fields(value: object) -> Mapping[str, object]:
    return value if isinstance(value, dict) else {}


# --- the set of fields of a value --------------------------------------------------------------------------------


def field_set(value: object, kind: Kind) -> Node:
    """Return the fields that a configuration sets: its leaves, its list items, and the keys of its maps."""
    return dict(_set_children(value, kind))


def _set_children(value: object, kind: Kind) -> Iterator[tuple[str, Node]]:
    match form_of(value, kind):
        case "map":
            named = kind.fields if kind is not None else {}
            for key, one in sorted(_fields(value).items()):
                member = one is None or one == {} or key not in named
                node = _set_node(one, below(kind, key), member=member)
                if node is not None:
                    yield f"f:{key}", node
        case "list" if kind is not None:
            for element, one in sorted(_items(value, kind).items()):
                yield element, _set_node(one, kind.items, member=True) or MEMBER


def _set_node(value: object, kind: Kind, *, member: bool) -> Node | None:
    if form_of(value, kind) == "leaf":
        return MEMBER
    return node_of(dict(_set_children(value, kind)), member=member)


# --- the difference of two values --------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Comparison:
    """The difference of an object before and after an update, as two sets of fields. `removed`: the removed fields.
    `written`: the new and the changed fields."""

    removed: Node
    written: Node

    def __bool__(self) -> bool:
        return bool(self.removed or self.written)

    def touched(self) -> Node:
        return union(self.written, self.removed)


def compare(old: object, new: object, kind: Kind) -> Comparison:
    """Return the difference of two objects. The cost depends only on the differences, because equal subtrees are
    skipped."""
    removed, written = _compare(old, new, kind)
    return Comparison(removed or {}, written or {})


def _compare(old: object, new: object, kind: Kind) -> tuple[Node | None, Node | None]:
    """Return the removed and the written fields of two different values. One of the two values may be absent."""
    if old is ABSENT:
        return None, _all_of(new, kind)
    if new is ABSENT:
        return _all_of(old, kind), None
    form = form_of(old if new is None else new, kind)
    if form == "leaf" or not (old or new):
        return None, MEMBER
    items: Kind = None
    if form == "map":
        before, after = _fields(old), _fields(new)
    else:
        assert kind is not None
        before, after, items = _items(old, kind), _items(new, kind), kind.items
    removed: dict[str, Node] = {}
    written: dict[str, Node] = {}
    for key in after.keys() | before.keys():
        one, other = before.get(key, ABSENT), after.get(key, ABSENT)
        if equal(one, other):
            continue
        element, inner = (f"f:{key}", below(kind, key)) if form == "map" else (key, items)
        gone, come = _compare(one, other, inner)
        if gone is not None:
            removed[element] = gone
        if come is not None:
            written[element] = come
    return in_order(removed) or None, in_order(written) or None


def equal(one: Any, other: Any) -> bool:
    """Return True if two JSON values are equal in structured-merge-diff (value.Equals): 1 equals 1.0, but not true. In
    Python 1 equals True, too.

    Most equal values have the same JSON, and comparing this JSON is fast. Otherwise the function walks through the
    values."""
    if one is other or one != other:
        return one is other
    is_nested = isinstance(one, dict | list)
    return (is_nested and _encode(one) == _encode(other)) or _have_equal_types(one, other)


def _have_equal_types(one: Any, other: Any) -> bool:
    """Return True if two values that are equal in Python have booleans in the same places."""
    if isinstance(one, dict):
        return all(value is other[key] or _have_equal_types(value, other[key]) for key, value in one.items())
    if isinstance(one, list):
        return all(map(_have_equal_types, one, other))
    return isinstance(one, bool) == isinstance(other, bool)


def _all_of(value: Any, kind: Kind) -> Node:
    """Return the fields of a value that exists only before or only after a write. Most written values are new. For
    speed, this function compares nothing and does not enter leaves."""
    form = form_of(value, kind)
    if not value or form == "leaf":
        return MEMBER
    children: dict[str, Node] = {SELF: MEMBER}
    if form == "map":
        for key in sorted(_fields(value)):
            inner = below(kind, key)
            is_leaf = inner is not None and inner.owned == "leaf"
            children[f"f:{key}"] = MEMBER if is_leaf else _all_of(value[key], inner)
    else:
        assert kind is not None
        items = _items(value, kind)
        for element in sorted(items):
            children[element] = _all_of(items[element], kind.items)
    return children if len(children) > 1 else MEMBER


# --- merging two values ------------------------------------------------------------------------------------------


def merged(live: object, config: Any, kind: Kind) -> Any:
    """Return `live` with the fields that `config` sets. The other fields are shared with `live`."""
    if config is ABSENT:
        return live
    if live is ABSENT or live is None or config is None:
        return config
    match form_of(config, kind):
        case "map" if isinstance(live, dict) and isinstance(config, dict):
            result = dict(live)
            for key, value in config.items():
                result[key] = merged(live.get(key, ABSENT), value, below(kind, key))
            return result
        case "list" if kind is not None and isinstance(live, list) and isinstance(config, list):
            return _merged_list(live, config, kind)
        case _:
            return config


def _merged_list(live: list[object], config: list[object], kind: Type) -> list[object]:
    """Return the merged list. Items that are in both lists have the order of `config`. Items that are only in `live`
    keep their positions between these items."""
    held = [(item_element(item, kind), item) for item in live]
    wanted, before = _items(config, kind), dict(reversed(held))
    shared = (element for element in wanted if element in before)
    turn, waiting = next(shared, None), iter(wanted.items())
    result: list[object] = []
    for element, item in held:
        if element not in wanted:
            result.append(item)
        elif element == turn:
            for one, value in waiting:
                result.append(merged(before.get(one, ABSENT), value, kind.items))
                if one == element:
                    break
            turn = next(shared, None)
    return result + [merged(before.get(one, ABSENT), value, kind.items) for one, value in waiting]


# --- removing fields ---------------------------------------------------------------------------------------------


def without(value: object, fields: Node, kind: Kind) -> object:
    """Return `value` without the fields in the set; ABSENT if the resulting object or list would be empty."""
    form = form_of(value, kind)
    if form == "map" and isinstance(value, dict):
        kept = {}
        for key, one in value.items():
            left = _left(one, fields.get(f"f:{key}"), below(kind, key))
            if left is not ABSENT:
                kept[key] = left
        return kept if kept or not value else ABSENT
    if form == "list" and kind is not None and isinstance(value, list):
        items = [_left(one, fields.get(item_element(one, kind)), kind.items) for one in value]
        rest = [one for one in items if one is not ABSENT]
        return rest if rest or not value else ABSENT
    return value


def _left(value: object, node: Node | None, kind: Kind) -> object:
    if node is None:
        return value
    return ABSENT if is_member(node) else without(value, node, kind)


def with_named_fields(root: Node, kind: Kind) -> Node:
    """Return the set with additional fields: each declared field of which the set already contains subfields. So a
    field that holds a struct is removed when all fields of the struct are removed."""
    result: dict[str, Node] = {}
    for element, node in root.items():
        if element == ".":
            result[element] = node
            continue
        named = False
        inner: Kind = None
        if element.startswith("f:"):
            key = element[2:]
            inner, named = below(kind, key), kind is not None and key in kind.fields
        elif kind is not None:
            inner = kind.items
        children = {k: v for k, v in with_named_fields(node, inner).items() if k != "."}
        result[element] = node_of(children, member=named or is_member(node)) or MEMBER
    return result


_GO_TYPES = {str: "string", bool: "bool", int: "int64", float: "float64"}


def problems(value: object, kind: Kind, path: tuple[str, ...] = ()) -> Iterator[str]:
    """Yield one line for each error, such as `.spec.nope: field not declared in schema`."""
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


def _object_problems(value: object, kind: Type, path: tuple[str, ...]) -> Iterator[str]:
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


def _list_problems(value: object, kind: Type, path: tuple[str, ...]) -> Iterator[str]:
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


def _item_problem(item: object, kind: Type) -> str:
    """Return the reason why a list item has no valid key; "" if its key is valid."""
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


def _type(value: object) -> str:
    return _GO_TYPES.get(type(value), "map[string]interface {}" if isinstance(value, dict) else "[]interface {}")


def _literal(value: object) -> str:
    """Return a decoded value as Go prints it with `%#v`."""
    match value:
        case dict():
            inside = ", ".join(f"{go_quoted(key)}:{_literal(value[key])}" for key in sorted(value))
            return f"map[string]interface {{}}{{{inside}}}"
        case list():
            return f"[]interface {{}}{{{', '.join(map(_literal, value))}}}"
        case str():
            return go_quoted(value)
    return _shown(value)


def _shown(value: object) -> str:
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
