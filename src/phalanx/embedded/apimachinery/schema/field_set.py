r"""Sets of fields, stored in the form that `managedFields` has in JSON (FieldsV1): a tree of path elements.

For example, `{"f:spec": {"f:replicas": {}, "f:ports": {"k:{\"port\":80}": {".": {}, "f:port": {}}}}}` is a set of three
paths. A node is a mapping from path elements to nodes. If a node is empty or contains `.`, the path to the node is
itself in the set. Path elements are `f:NAME` (a field or map key), `k:JSON` (a list item, named by its keys), `v:JSON`
(an item of a set), and `i:INDEX`. Because the sets keep the form of JSON, reading and writing managedFields needs no
conversion.

Sets are immutable: every operation returns a new set, which shares the unchanged parts. The elements of a node are in
the order in which kube-apiserver writes them. Every operation keeps that order, and `sorted_set` establishes it.
Source: sigs.k8s.io/structured-merge-diff/v6/fieldpath (the encoding is in serialize-pe.go).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

Node = Mapping[str, Any]
SELF = "."
EMPTY: Node = {}
MEMBER: Node = {}
_JUST_SELF: Node = {SELF: {}}


def is_member(node: Node) -> bool:
    """Return True if the path to this node is in the set. The argument must not be the root, which has no path."""
    return not node or SELF in node


def node_of(children: dict[str, Node], *, member: bool) -> Node | None:
    """Return a node with these children. `member`: True if the path to the node is itself in the set. Return None if
    `member` is False and there are no children, because the node would then contain no path."""
    if not children:
        return MEMBER if member else None
    return {SELF: {}, **children} if member else children


def _children(node: Node) -> Iterator[tuple[str, Node]]:
    return ((element, below) for element, below in node.items() if element != SELF)


def union(one: Node, other: Node) -> Node:
    """Return the paths that are in at least one of two sets. Both arguments are roots."""
    if not one or not other:
        return one or other
    merged = dict(one)
    for element, node in _children(other):
        mine = merged.get(element)
        merged[element] = node if mine is None else _united(mine, node)
    return merged if len(merged) == len(one) else in_order(merged)


def _united(one: Node, other: Node) -> Node:
    if one is other:
        return one
    member = is_member(one) or is_member(other)
    children = union(dict(_children(one)), dict(_children(other)))
    return node_of(dict(children), member=member) or MEMBER


def difference(one: Node, other: Node) -> Node:
    """Return the paths of `one` that are not in `other`; `one` itself if nothing is removed. Both arguments are
    roots."""
    changed: dict[str, Node | None] = {}
    small, big = (one, other) if len(one) < len(other) else (other, one)
    for element in small:
        if element != SELF and element in big:
            left = _without(one[element], other[element])
            if left is not one[element]:
                changed[element] = left
    if not changed:
        return one
    return {k: v for k, v in ((k, changed.get(k, v)) for k, v in one.items()) if v is not None}


def _without(node: Node, other: Node) -> Node | None:
    member = is_member(node)
    stays = member and not is_member(other)
    if not node:
        return node if stays else None
    children = difference(node, other)
    if children is node and stays == member:
        return node
    return node_of(dict(_children(children)), member=stays)


def recursive_difference(one: Node, other: Node) -> Node:
    """Return the paths in `one` that are neither in `other` nor below one of its paths."""
    result: dict[str, Node] = {}
    for element, node in one.items():
        against = other.get(element)
        if element == SELF or against is None:
            result[element] = node
        elif not is_member(against):
            children = recursive_difference(dict(_children(node)), against)
            left = node_of(dict(children), member=is_member(node))
            if left is not None:
                result[element] = left
    return result


def intersection(one: Node, other: Node) -> Node:
    """Return the paths that are in both sets. Both arguments are roots."""
    result: dict[str, Node] = {}
    small, big = (one, other) if len(one) < len(other) else (other, one)
    for element, node in _children(small):
        if element in big:
            shared = node_of(dict(intersection(node, big[element])), member=is_member(node) and is_member(big[element]))
            if shared is not None:
                result[element] = shared
    return result


def paths(root: Node, prefix: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Yield every path in the set, as a tuple of elements. The order is that of kube-apiserver: below each parent,
    first the children that are in the set themselves, and then the paths below the children."""
    children = sorted(_children(root))
    yield from ((*prefix, element) for element, node in children if is_member(node))
    for element, node in children:
        yield from paths(node, (*prefix, element))


def path_text(path: tuple[str, ...]) -> str:
    """Return the path as messages about conflicts show it: `.spec.containers[name="c"].image`."""
    return "".join(map(_element_text, path))


def _element_text(element: str) -> str:
    sort, _, rest = element.partition(":")
    match sort:
        case "f":
            return f".{rest}"
        case "i":
            return f"[{rest}]"
        case "v":
            return f"[={rest}]"
        case _:
            keys = msgspec.json.decode(rest)
            inner = ",".join(f"{key}={msgspec.json.encode(keys[key]).decode()}" for key in sorted(keys))
            return f"[{inner}]"


def in_order(node: Node) -> Node:
    """Return the node with its direct elements in kube-apiserver's order."""
    return {element: node[element] for element in sorted(node)} if len(node) > 1 else node


def sorted_set(root: Node) -> Node:
    """Return the set with the elements of all nodes in kube-apiserver's order."""
    return {element: sorted_set(root[element]) for element in sorted(root)}
