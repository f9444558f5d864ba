"""One wrong thing in an object: a place is drawn, and a value that its type does not allow, or hardly allows."""

from __future__ import annotations

from random import Random
from typing import Any

from phalanx.embedded.apimachinery.schema.schema import Type
from tests.embedded.beside.conversation import REMOVED
from tests.embedded.fuzz.values import places

Json = Any
Edit = tuple[tuple[str | int, ...], Json]

_TEXTS = ("", "A_b", "a b", "a" * 64, "-x", "x.y", "Odd", "a/b/c", "1", "é")
_NAMES = ("", "Upper", "a_b", "-a", "a.", "x" * 254, "a/b")
_QUANTITIES = ("-1", "1.5.5", "1Q", "", "0", "1e3", "0.1m", "100m")
_TIMES = ("2026-01-01T00:00:00Z", "yesterday", "2026-01-01", "")
_LABELS = ({"a": "b c"}, {"a/b/c": "d"}, {"": "x"}, {"a": "x" * 64}, {"-a": "b"}, {"a": 1}, {"a": None})
_WRONG_TYPES = (1, "text", True, [], {}, [1], {"a": 1}, 1.5, None)
_META: tuple[Edit, ...] = (
    (("metadata", "finalizers"), ["a"]),
    (("metadata", "finalizers"), ["a/b", "a b"]),
    (("metadata", "ownerReferences"), [{"apiVersion": "v1", "kind": "Pod", "name": "a"}]),
    (("metadata", "ownerReferences"), [{"apiVersion": "v1", "kind": "Pod", "name": "", "uid": "u"}]),
    (("metadata", "generation"), 7),
    (("metadata", "creationTimestamp"), "2026-01-01T00:00:00Z"),
    (("metadata", "deletionGracePeriodSeconds"), 5),
    (("metadata", "managedFields"), [{"manager": "m", "operation": "Odd"}]),
    (("metadata", "selfLink"), "/x"),
    (("metadata", "uid"), "u"),
    (("metadata", "resourceVersion"), "1"),
    (("metadata", "generateName"), "G_"),
    (("metadata", "namespace"), "another"),
    (("metadata", "unknown"), 1),
    (("metadata",), None),
    (("kind",), "Odd"),
    (("apiVersion",), "odd/v1"),
    (("apiVersion",), REMOVED),
    (("status",), {}),
    (("status",), 7),
    (("unknown",), {"a": 1}),
)


def mistake(random: Random, obj: Json, node: Type) -> Edit:
    """Return an edit of `obj`, whose type is `node`."""
    if random.random() < 0.15:
        return random.choice(_META)
    if random.random() < 0.1:
        return ("metadata", random.choice(("labels", "annotations"))), random.choice(_LABELS)
    if random.random() < 0.07:
        return ("metadata", "name"), random.choice(_NAMES)
    spots = [path for path in places(obj) if path[0] not in ("metadata", "apiVersion", "kind")]
    if not spots:
        return random.choice(_META)
    path = random.choice(spots)
    found = _at(node, path)
    if found is not None and found.shape == "object" and random.random() < 0.75:
        return _new_field(random, path, found)
    return path, _wrong(random, found, obj, path)


def _at(node: Type | None, path: tuple[str | int, ...]) -> Type | None:
    for key in path:
        if node is None:
            return None
        node = node.items if isinstance(key, int) or node.shape == "map" else node.fields.get(key)
    return node


def _new_field(random: Random, path: tuple[str | int, ...], node: Type) -> Edit:
    """Return an edit that sets any field of the object at `path`, which it may have already."""
    if random.random() < 0.12 or not node.fields:
        return (*path, "unknown"), 1
    key = random.choice(sorted(node.fields))
    child = node.fields[key]
    if child.shape == "object" and random.random() < 0.6 and child.fields:
        inner = random.choice(sorted(child.fields))
        return (*path, key, inner), _value(random, child.fields[inner])
    return (*path, key), _value(random, child)


def _wrong(random: Random, node: Type | None, obj: Json, path: tuple[str | int, ...]) -> Json:
    match random.randrange(10):
        case 0 | 1:
            return REMOVED
        case 2:
            return random.choice(_WRONG_TYPES)
        case 3 if isinstance(found := _value_at(obj, path), list) and found:
            return [*found, found[-1]]
    return random.choice(_WRONG_TYPES) if node is None else _value(random, node)


def _value(random: Random, node: Type, depth: int = 2) -> Json:
    """Return a value of the type, which is often out of its range."""
    match node.shape:
        case "string":
            return random.choice(_TEXTS)
        case "boolean":
            return random.choice((True, False, "true", None))
        case "integer":
            return random.choice((-1, 0, 1, 2, 7, 65536, 2**31, "1", 1.5))
        case "number":
            return random.choice((-1, 0.5, "1"))
        case "quantity":
            return random.choice(_QUANTITIES)
        case "int-or-string":
            return random.choice((0, -1, "50%", "101%", "x", "", 70000))
        case "time" | "microtime":
            return random.choice(_TIMES)
        case "list":
            if depth == 0 or node.items is None:
                return []
            one = _value(random, node.items, depth - 1)
            return random.choice(([], [one], [one, one]))
        case "map":
            if depth == 0 or node.items is None:
                return {}
            return {random.choice(("a", "a/b", "A B", "cpu", "")): _value(random, node.items, depth - 1)}
        case "object":
            keys = [one for one in sorted(node.fields) if depth and random.random() < 0.3]
            return {key: _value(random, node.fields[key], depth - 1) for key in keys}
    return random.choice(({}, None, 1, {"a": "b"}))


def _value_at(value: Json, path: tuple[str | int, ...]) -> Json:
    for key in path:
        value = value[key]
    return value
