"""Values seen through their schema: which fields they set, how two of them differ, how one merges into another.

This is the part of server-side apply that knows what a list is. Three cases decide everything: a *leaf* (a scalar, or
an object or list that the schema calls atomic) is owned and replaced as a whole; in an object or map every key is
owned apart; in a list of type `map` or `set` every item is owned apart, found by its keys or its value. Below a place
that the schema leaves free (`x-kubernetes-preserve-unknown-fields`) objects are granular and lists are leaves; such a
place has no type (None).

Sets of fields are the tries of `field_set`. Source: sigs.k8s.io/structured-merge-diff/v6/typed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import msgspec

from phalanx.embedded.apiserver.apimachinery.caching import cached
from phalanx.embedded.apiserver.apimachinery.schema.field_set import MEMBER, Node, is_member, node_of
from phalanx.embedded.apiserver.apimachinery.schema.schema import Type

Kind = Type | None
Form = Literal["leaf", "map", "list"]
ABSENT: Any = object()


def form_of(value: Any, kind: Kind) -> Form:
    """How a value is owned."""
    if kind is None or (kind.shape == "any" and kind.preserves_unknown):
        return "map" if isinstance(value, dict) else "leaf"
    if kind.shape in ("object", "map"):
        return "leaf" if kind.map_type == "atomic" else "map"
    if kind.shape == "list":
        return "leaf" if kind.list_type == "atomic" else "list"
    return "leaf"


def below(kind: Kind, key: str) -> Kind:
    """The type of a field or map key."""
    return kind.child(key) if kind is not None else None


def item_element(item: Any, kind: Type) -> str:
    """The path element of a list item: `k:{"name":"c"}` or `v:"x"`."""
    if kind.list_type == "map" and isinstance(item, dict):
        defaults = kind.map_key_defaults
        values = tuple(item.get(key, defaults.get(key)) for key in kind.map_keys)
        try:
            return _key_element(kind.map_keys, values)
        except TypeError:  # a key that is itself a list or an object
            return "k:" + msgspec.json.encode(dict(zip(kind.map_keys, values, strict=True))).decode()
    return "v:" + msgspec.json.encode(item).decode()


@cached(8192)
def _key_element(keys: tuple[str, ...], values: tuple[Any, ...]) -> str:
    return "k:" + msgspec.json.encode(dict(sorted(zip(keys, values, strict=True)))).decode()


def _items(value: Any, kind: Type) -> dict[str, Any]:
    """A list's items by path element; of duplicates the first."""
    found: dict[str, Any] = {}
    for item in value if isinstance(value, list) else ():
        found.setdefault(item_element(item, kind), item)
    return found


def _fields(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


# --- which fields a value sets -----------------------------------------------------------------------------------


def field_set(value: Any, kind: Kind) -> Node:
    """The fields that a configuration sets: its leaves, its list items, the keys of its maps."""
    return dict(_set_children(value, kind))


def _set_children(value: Any, kind: Kind) -> Iterator[tuple[str, Node]]:
    match form_of(value, kind):
        case "map":
            named = kind.fields if kind is not None else {}
            for key, one in _fields(value).items():
                member = one is None or one == {} or key not in named
                node = _set_node(one, below(kind, key), member=member)
                if node is not None:
                    yield f"f:{key}", node
        case "list" if kind is not None:
            for element, one in _items(value, kind).items():
                yield element, _set_node(one, kind.items, member=True) or MEMBER


def _set_node(value: Any, kind: Kind, *, member: bool) -> Node | None:
    if form_of(value, kind) == "leaf":
        return MEMBER
    return node_of(dict(_set_children(value, kind)), member=member)


# --- how two values differ ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Comparison:
    """The comparison of an object before and after an update, as sets of fields."""

    removed: Node
    modified: Node
    added: Node

    def __bool__(self) -> bool:
        return bool(self.removed or self.modified or self.added)


_NOTHING = (None, None, None)
_Difference = tuple[Node | None, Node | None, Node | None]


def compare(old: Any, new: Any, kind: Kind) -> Comparison:
    """The difference of two objects. Costs what differs: equal subtrees are not entered."""
    removed, modified, added = _compare(old, new, kind)
    return Comparison(removed or {}, modified or {}, added or {})


def _compare(old: Any, new: Any, kind: Kind) -> _Difference:
    if old is new or (old == new and type(old) is type(new)):
        return _NOTHING
    if old is ABSENT:
        return None, None, _all_of(new, kind)
    value = old if new is ABSENT or new is None else new
    form = form_of(value, kind)
    if form == "leaf" or (not _filled(old) and not _filled(new)):
        return _leaf_difference(old, new)
    if form == "map":
        pairs = _map_pairs(_fields(old), _fields(new), kind)
    else:
        assert kind is not None
        pairs = _list_pairs(_items(old, kind), _items(new, kind), kind)
    removed: dict[str, Node] = {}
    modified: dict[str, Node] = {}
    added: dict[str, Node] = {}
    for element, before, after, inner in pairs:
        gone, changed, come = _compare(before, after, inner)
        if gone is not None:
            removed[element] = gone
        if changed is not None:
            modified[element] = changed
        if come is not None:
            added[element] = come
    return (
        node_of(removed, member=new is ABSENT),
        node_of(modified, member=False),
        node_of(added, member=False),
    )


def _all_of(new: Any, kind: Kind) -> Node:
    """The fields of a value that was not there. Most objects are new ones, so this walk has nothing to compare."""
    form = form_of(new, kind)
    if not new or form == "leaf":
        return MEMBER
    if form == "map":
        children = {f"f:{key}": _all_of(value, below(kind, key)) for key, value in _fields(new).items()}
    else:
        assert kind is not None
        children = {element: _all_of(item, kind.items) for element, item in _items(new, kind).items()}
    return node_of(children, member=True) or MEMBER


def _filled(value: Any) -> bool:
    return value is not ABSENT and bool(value)


def _leaf_difference(old: Any, new: Any) -> _Difference:
    if new is ABSENT:
        return MEMBER, None, None
    return None, MEMBER, None


def _map_pairs(old: Mapping[str, Any], new: Mapping[str, Any], kind: Kind) -> Iterator[tuple[str, Any, Any, Kind]]:
    for key, value in new.items():
        before = old.get(key, ABSENT)
        if before is not value:
            yield f"f:{key}", before, value, below(kind, key)
    for key, value in old.items():
        if key not in new:
            yield f"f:{key}", value, ABSENT, below(kind, key)


def _list_pairs(old: Mapping[str, Any], new: Mapping[str, Any], kind: Type) -> Iterator[tuple[str, Any, Any, Kind]]:
    for element, value in new.items():
        yield element, old.get(element, ABSENT), value, kind.items
    for element, value in old.items():
        if element not in new:
            yield element, value, ABSENT, kind.items


# --- how one merges into another ---------------------------------------------------------------------------------


def merged(live: Any, config: Any, kind: Kind) -> Any:
    """`live` with what `config` sets; shares with `live` what it does not set."""
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
    """Shared items come in the order of `config`; what only `live` has keeps its place between them."""
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
    """`value` without the fields in the set; an object or list that loses everything becomes ABSENT."""
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
    """The set with every field that the schema names and that has something in the set: when all below a struct's
    field goes, the field goes too."""
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
