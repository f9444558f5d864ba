"""Operations on values with a schema: the set of their fields, the difference of two values, and merging.

Server-side apply uses them for lists and maps. There are three cases. A *leaf* (a scalar, or an atomic object or list)
is owned and replaced as a whole. In an object or map every key has its own owners. In a list of type `map` or `set`
every item has its own owners, and is found by its keys or its value. Below `x-kubernetes-preserve-unknown-fields`
objects are granular and lists are leaves; such a field has no type (None).

Sets of fields are the tries of `field_set`. Source: sigs.k8s.io/structured-merge-diff/v6/typed.
"""

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
    union,
)
from phalanx.embedded.apimachinery.schema.schema import Type

Kind = Type | None
Form = Literal["leaf", "map", "list"]
ABSENT: Any = object()
_encode = msgspec.json.encode


def form_of(value: Any, kind: Kind) -> Form:
    """Return the form in which a value is owned."""
    owned = kind.owned if kind is not None else "free"
    if owned == "free":
        return "map" if isinstance(value, dict) else "leaf"
    return owned


def below(kind: Kind, key: str) -> Kind:
    """Return the type of a field or map key."""
    return kind.child(key) if kind is not None else None


def item_element(item: Any, kind: Type) -> str:
    """Return the path element of a list item: `k:{"name":"c"}` or `v:"x"`."""
    if kind.list_type == "map" and isinstance(item, dict):
        defaults = kind.map_key_defaults
        keys = {key: item[key] if key in item else defaults.get(key) for key in kind.map_keys}
        return "k:" + _encode(keys, order="deterministic").decode()
    return "v:" + _encode(item).decode()


def _items(value: Any, kind: Type) -> dict[str, Any]:
    """Return a list's items by path element; of duplicates the first."""
    found: dict[str, Any] = {}
    for item in value if isinstance(value, list) else ():
        found.setdefault(item_element(item, kind), item)
    return found


def _fields(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


# --- which fields a value sets -----------------------------------------------------------------------------------


def field_set(value: Any, kind: Kind) -> Node:
    """Return the fields that a configuration sets: its leaves, its list items, the keys of its maps."""
    return dict(_set_children(value, kind))


def _set_children(value: Any, kind: Kind) -> Iterator[tuple[str, Node]]:
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


def _set_node(value: Any, kind: Kind, *, member: bool) -> Node | None:
    if form_of(value, kind) == "leaf":
        return MEMBER
    return node_of(dict(_set_children(value, kind)), member=member)


# --- how two values differ ---------------------------------------------------------------------------------------


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


def compare(old: Any, new: Any, kind: Kind) -> Comparison:
    """Return the difference of two objects. The cost depends on the differences, because equal subtrees are skipped."""
    removed, written = _compare(old, new, kind)
    return Comparison(removed or {}, written or {})


def _compare(old: Any, new: Any, kind: Kind) -> tuple[Node | None, Node | None]:
    """Return the removed and the written fields of two different values; one of them may be absent."""
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
        if one is other or (one == other and type(one) is type(other)):
            continue
        element, inner = (f"f:{key}", below(kind, key)) if form == "map" else (key, items)
        gone, come = _compare(one, other, inner)
        if gone is not None:
            removed[element] = gone
        if come is not None:
            written[element] = come
    return in_order(removed) or None, in_order(written) or None


def _all_of(value: Any, kind: Kind) -> Node:
    """Return the fields of a value that exists on one side only. Most written values are new, so this function avoids
    comparisons and does not enter leaves."""
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


# --- how one merges into another ---------------------------------------------------------------------------------


def merged(live: Any, config: Any, kind: Kind) -> Any:
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


def _merged_list(live: list[Any], config: list[Any], kind: Type) -> list[Any]:
    """Return the merged list. Items of both lists are in the order of `config`; items that only `live` has keep their
    places between them."""
    held = [(item_element(item, kind), item) for item in live]
    wanted, before = _items(config, kind), dict(reversed(held))
    shared = (element for element in wanted if element in before)
    turn, waiting = next(shared, None), iter(wanted.items())
    result: list[Any] = []
    for element, item in held:
        if element not in wanted:
            result.append(item)
        elif element == turn:
            for one, value in waiting:
                result.append(merged(before.get(one, ABSENT), value, kind.items))
                if one == element:
                    break
            turn = next(shared, None)
    return result + [value for _, value in waiting]


# --- taking fields away ------------------------------------------------------------------------------------------


def without(value: Any, fields: Node, kind: Kind) -> Any:
    """Return `value` without the fields in the set; ABSENT if an object or list would be empty."""
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


def _left(value: Any, node: Node | None, kind: Kind) -> Any:
    if node is None:
        return value
    return ABSENT if is_member(node) else without(value, node, kind)


def with_named_fields(root: Node, kind: Kind) -> Node:
    """Return the set, extended by each declared field that has fields below it in the set: if everything below a
    struct's field is removed, the field is removed, too."""
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
