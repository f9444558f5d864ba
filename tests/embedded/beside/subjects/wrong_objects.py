"""Conversations about one wrong thing in an object of any built-in kind, and about the life of an object."""

from __future__ import annotations

from typing import Any

from phalanx.embedded.apimachinery.schema.schema import type_of
from tests.embedded.beside.conversation import APPLY, JSON_PATCH, MERGE, STRATEGIC, TABLE, YAML, Talk, changed
from tests.embedded.beside.subjects.kinds import Kind, some_kind
from tests.embedded.beside.subjects.mistakes import mistake

Json = Any


def wrong_objects(talk: Talk) -> None:
    """Two kinds: each is created with something wrong, then right, then changed to something wrong."""
    for number in range(2):
        kind = some_kind(talk.random)
        _wrong_object(talk, kind, f"w{number}")


def _wrong_object(talk: Talk, kind: Kind, name: str) -> None:
    random, node = talk.random, type_of(kind.schema)
    good = kind.sound(name)
    if not kind.namespaced:
        talk.cleanup.append(kind.place(good))
    for _ in range(2):
        query = random.choice(("", "", "?fieldValidation=Strict", "?fieldValidation=Ignore", "?dryRun=All"))
        talk.post(kind.path + query, changed(good, [mistake(random, good, node)]), managed=random.random() < 0.3)
    made = talk.post(kind.path, good, managed=random.random() < 0.3)
    for _ in range(random.choice((2, 3, 4))):
        edit = mistake(random, good, node)
        match random.choice(("put", "put", "merge", "strategic", "json", "apply")):
            case "put":
                talk.edit(kind.place(good), made, edit, managed=random.random() < 0.3)
            case "merge":
                talk.patch(kind.place(good), changed({}, [_in_maps(edit)]))
            case "strategic":
                talk.patch(kind.place(good), changed({}, [_in_maps(edit)]), STRATEGIC)
            case "json":
                talk.patch(kind.place(good), [_operation(edit)], JSON_PATCH)
            case _:
                bad = changed({key: good[key] for key in good if key != "status"}, [edit])
                talk.patch(f"{kind.place(good)}?fieldManager=m&force=true", bad, APPLY)
    talk.get(kind.place(good), managed=random.random() < 0.3)


def _in_maps(edit: tuple[tuple[str | int, ...], Json]) -> tuple[tuple[str | int, ...], Json]:
    """Return the edit for a patch: it ends at the first list on its way, which it replaces; removal is null."""
    path, value = edit
    for number, key in enumerate(path):
        if isinstance(key, int):
            return path[:number], [{}]
    return path, value if isinstance(value, (str, int, float, list, dict)) else None


def _operation(edit: tuple[tuple[str | int, ...], Json]) -> Json:
    path, value = edit
    pointer = "".join("/" + str(key).replace("~", "~0").replace("/", "~1") for key in path)
    if value is None or isinstance(value, (str, int, float, list, dict)):
        return {"op": "replace" if len(path) % 2 else "add", "path": pointer, "value": value}
    return {"op": "remove", "path": pointer}


_METADATA = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io"


def lives(talk: Talk) -> None:
    """Create, list, watch, patch, write status, delete with options."""
    random = talk.random
    kind = some_kind(random)
    good = kind.sound("o")
    place = kind.place(good)
    if not kind.namespaced:
        talk.cleanup.append(place)
    own = "labelSelector=of%3D${ns}"
    made = talk.post(kind.path, good, managed=random.random() < 0.3)
    steps = [
        lambda: talk.get(place, random.choice(("", TABLE, f"{_METADATA},application/json", YAML, "text/html"))),
        lambda: talk.get(f"{kind.path}?{own}", random.choice(("", TABLE, TABLE.split(",")[0]))),
        lambda: talk.get(f"{kind.path}?{own}&" + random.choice(_LISTS)),
        lambda: talk.post(kind.path, good),
        lambda: talk.patch(place, {"metadata": {"labels": {"c": random.choice(("d", "e", None))}}}, MERGE),
        lambda: talk.patch(place, {"metadata": {"annotations": {"x/y": None, "q": "r"}}}, STRATEGIC, managed=True),
        lambda: talk.patch(place, random.choice(_JSON_PATCHES), JSON_PATCH),
        lambda: talk.patch(place, random.choice(_PATCHES), random.choice((MERGE, STRATEGIC))),
        lambda: talk.edit(place, made, (("metadata", "labels", "e"), "f")),
        lambda: talk.edit(place, made, (("metadata", "resourceVersion"), random.choice(("", "1", "x")))),
        lambda: talk.edit(place, made, (("metadata", "finalizers"), ["a.example/f"])),
        lambda: talk.get(f"{place}/{random.choice((*kind.subresources, 'status', 'scale'))}"),
        lambda: talk.patch(f"{place}/status", random.choice(_STATUS), random.choice((MERGE, STRATEGIC)), managed=True),
        lambda: talk.patch(f"{place}/status", {"metadata": {"labels": {"s": "t"}}}, MERGE),
        lambda: talk.watch(kind.path, made, own, random.choice(("", TABLE.split(",")[0]))),
        lambda: talk.get(f"{kind.path}?{own}&resourceVersion={random.choice(('0', 'x', f'${{rv{made}}}'))}"),
    ]
    for step in random.sample(steps, random.choice((6, 8, 10))):
        step()
    query, body = random.choice(_DELETIONS)
    talk.delete(place + query, body)
    talk.get(place)
    talk.patch(place, {"metadata": {"finalizers": None}}, MERGE)
    talk.delete(place)
    talk.watch(kind.path, made, own)
    if random.random() < 0.4 and kind.namespaced:
        talk.delete(f"{kind.path}?{random.choice(('', own, 'dryRun=All', 'limit=x'))}")


_LISTS = (
    "limit=1",
    "fieldSelector=metadata.name%3Do",
    "fieldSelector=metadata.namespace!%3D${ns}",
    "fieldSelector=spec.odd%3Dx",
    "fieldSelector=status.phase%3DRunning",
    "fieldSelector=a",
    "limit=-1",
    "limit=x",
    "resourceVersionMatch=Exact",
    "resourceVersionMatch=Odd&resourceVersion=1",
    "resourceVersion=0&resourceVersionMatch=NotOlderThan",
    "continue=abc",
    "timeoutSeconds=x",
    "sendInitialEvents=true",
    "pretty=true",
)
_JSON_PATCHES = (
    [{"op": "test", "path": "/metadata/name", "value": "other"}],
    [{"op": "add", "path": "/metadata/labels/x~1y", "value": "z"}],
    [{"op": "remove", "path": "/metadata/labels/none"}],
    [{"op": "replace", "path": "/metadata/labels", "value": {"only": "this"}}],
    [{"op": "copy", "from": "/metadata/labels/a", "path": "/metadata/labels/copy"}],
    [{"op": "move", "from": "/metadata/labels/none", "path": "/metadata/labels/copy"}],
    [{"op": "odd", "path": "/a"}],
    [{"op": "add", "path": "metadata", "value": 1}],
    [{"op": "add", "path": "/metadata/finalizers/-", "value": "x/y"}],
    {"op": "add"},
    [],
)
_PATCHES: tuple[Json, ...] = (
    {"metadata": {"name": "other"}},
    {"metadata": {"uid": "u"}},
    {"metadata": {"resourceVersion": "1"}},
    {"metadata": {"generation": 9, "creationTimestamp": None}},
    {"metadata": {"labels": None}},
    {"metadata": {"ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "a", "uid": "u"}]}},
    {"metadata": {"finalizers": ["a.example/f"]}},
    {"metadata": {"$patch": "replace", "labels": {"z": "y"}}},
    {"metadata": {"managedFields": [{}]}},
    {"kind": "Odd"},
    {"unknown": {"a": 1}},
    [],
    "text",
    None,
)
_STATUS: tuple[Json, ...] = (
    {"status": {"phase": "Odd"}},
    {"status": {"conditions": [{"type": "A", "status": "True"}]}},
    {"status": {"conditions": [{"type": "A", "status": "Odd", "lastTransitionTime": "2026-01-01T00:00:00Z"}]}},
    {"status": {"replicas": 3, "readyReplicas": 4}},
    {"status": {"observedGeneration": -1}},
    {"status": {"unknown": 1}},
    {"status": None},
    {"status": 7},
)
_DELETIONS: tuple[tuple[str, Json], ...] = (
    ("", None),
    ("?propagationPolicy=Foreground", None),
    ("?propagationPolicy=Background&gracePeriodSeconds=0", None),
    ("?propagationPolicy=Orphan", None),
    ("?propagationPolicy=Odd", None),
    ("?dryRun=All", None),
    ("?gracePeriodSeconds=-1", None),
    ("?orphanDependents=true", None),
    ("", {"kind": "DeleteOptions", "apiVersion": "v1", "preconditions": {"uid": "${uid0}"}}),
    ("", {"kind": "DeleteOptions", "apiVersion": "v1", "preconditions": {"uid": "u"}}),
    ("", {"kind": "DeleteOptions", "apiVersion": "v1", "preconditions": {"resourceVersion": "1"}}),
    ("", {"propagationPolicy": "Foreground", "orphanDependents": False}),
    ("", {"kind": "Odd", "apiVersion": "v1"}),
    ("", "{"),
    ("", {"gracePeriodSeconds": "x"}),
)
