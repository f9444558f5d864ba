"""Conversations of several managers that apply parts of one object: a Deployment, a Job, a Service, a Widget."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

from tests.embedded.beside.conversation import APPLY, CORE, JSON_PATCH, MERGE, STRATEGIC, Talk

Json = Any

_APPS, _JOBS = "/apis/apps/v1/namespaces/${ns}/deployments", "/apis/batch/v1/namespaces/${ns}/jobs"
_GROUP = "c${id}.example.com"
_DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


def _container(random: Random) -> Json:
    found = {"name": random.choice(("c", "d")), "image": random.choice(("i", "j"))}
    extra: tuple[Json, ...] = (
        {},
        {"env": [{"name": random.choice(("A", "B")), "value": random.choice(("1", "2"))}]},
        {"ports": [{"containerPort": random.choice((80, 81))}]},
        {"ports": [{"containerPort": 80, "protocol": "UDP"}]},
        {"args": random.choice((["a"], ["a", "b"]))},
        {"resources": {"limits": {"cpu": random.choice(("1", "1000m", "2"))}}},
        {"volumeMounts": [{"name": "v", "mountPath": "/v"}]},
    )
    return {**found, **random.choice(extra)}


def _deployment(random: Random) -> Json:
    pod: Json = {"containers": [_container(random)]}
    if "volumeMounts" in pod["containers"][0]:
        pod["volumes"] = [{"name": "v", "emptyDir": {}}]
    if random.random() < 0.2:
        pod["tolerations"] = [{"key": random.choice(("a", "b")), "operator": "Exists"}]
    labels = {"a": "b", **({"extra": "1"} if random.random() < 0.3 else {})}
    spec: Json = {"selector": {"matchLabels": {"a": "b"}}, "template": {"metadata": {"labels": labels}, "spec": pod}}
    if random.random() < 0.5:
        spec["replicas"] = random.choice((1, 2, 3))
    if random.random() < 0.2:
        spec["strategy"] = {"type": "Recreate"}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "o"}, "spec": spec}


def _job(random: Random) -> Json:
    pod = {"restartPolicy": "Never", "containers": [{"name": "c", "image": random.choice(("i", "i", "j"))}]}
    spec: Json = {"template": {"spec": pod}}
    for key, values in (
        ("parallelism", (1, 2)),
        ("suspend", (True, False)),
        ("backoffLimit", (3, 4)),
        ("completions", (2, 3)),
    ):
        if random.random() < 0.4:
            spec[key] = random.choice(values)
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "o"}, "spec": spec}


def _service(random: Random) -> Json:
    port = {"port": random.choice((80, 81)), "name": random.choice(("p", "q")), "protocol": "TCP"}
    spec = {"ports": [port], "selector": {random.choice(("a", "b")): "x"}}
    return {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "o"}, "spec": spec}


def _config_map(random: Random) -> Json:
    data = {random.choice(("a", "b", "c")): random.choice(("1", "2")) for _ in range(2)}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "o"}, "data": data}


def _widget(random: Random) -> Json:
    parts: dict[str, Callable[[], Json]] = {
        "count": lambda: random.choice((1, 2, None)),
        "names": lambda: random.choice((["a"], ["b", "a"], [])),
        "items": lambda: [{"key": random.choice(("a", "b")), "value": random.choice((1, 2))}],
        "whole": lambda: {random.choice(("x", "y")): "1"},
        "list": lambda: random.choice(([1], [1, 2])),
        "map": lambda: {random.choice(("x", "y")): random.choice(("1", "2"))},
    }
    spec = {name: make() for name, make in parts.items() if random.random() < 0.5}
    return {"apiVersion": f"{_GROUP}/v1", "kind": "Widget", "metadata": {"name": "o"}, "spec": spec}


_SPEC_SCHEMA = {
    "type": "object",
    "properties": {
        "count": {"type": "integer", "nullable": True},
        "names": {"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set"},
        "items": {
            "type": "array",
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["key"],
            "items": {
                "type": "object",
                "required": ["key"],
                "properties": {"key": {"type": "string"}, "value": {"type": "integer"}},
            },
        },
        "whole": {"type": "object", "x-kubernetes-map-type": "atomic", "additionalProperties": {"type": "string"}},
        "list": {"type": "array", "items": {"type": "integer"}},
        "map": {"type": "object", "additionalProperties": {"type": "string"}},
        "replicas": {"type": "integer", "default": 1},
    },
}


def _widgets(talk: Talk) -> str:
    status = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    schema = {"type": "object", "properties": {"spec": _SPEC_SCHEMA, "status": status}}
    version = {
        "name": "v1",
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": schema},
        "subresources": {"status": {}},
    }
    names = {"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList"}
    spec = {"group": _GROUP, "scope": "Namespaced", "names": names, "versions": [version]}
    talk.cleanup.append(f"{_DEFINITIONS}/widgets.{_GROUP}")
    talk.post(_DEFINITIONS, {"metadata": {"name": f"widgets.{_GROUP}"}, "spec": spec})
    path = f"/apis/{_GROUP}/v1/namespaces/${{ns}}/widgets"
    talk.get(path, until=200)
    return path


def applies(talk: Talk) -> None:
    random = talk.random
    makers: dict[str, Callable[[Random], Json]] = {
        _APPS: _deployment,
        _JOBS: _job,
        f"{CORE}/services": _service,
        f"{CORE}/configmaps": _config_map,
        "": _widget,
    }
    path, make = random.choice(list(makers.items()))
    path = path or _widgets(talk)
    place = f"{path}/o"
    if random.random() < 0.4:
        talk.post(f"{path}?fieldManager=maker", make(random), managed=True)
    last = 0
    for _ in range(random.choice((6, 8, 10))):
        manager = random.choice(("one", "two", "three"))
        obj = make(random)
        match random.randrange(12):
            case 0 | 1 | 2 | 3 | 4:
                last = talk.apply(place, obj, manager, random.choice(("", "", "force=true", "dryRun=All")))
            case 5:
                talk.patch(f"{place}?fieldManager={manager}", {"spec": obj.get("spec")}, MERGE, managed=True)
            case 6:
                talk.patch(
                    f"{place}?fieldManager={manager}", {"metadata": {"labels": {"x": manager}}}, STRATEGIC, managed=True
                )
            case 7:
                talk.put(f"{place}?fieldManager={manager}", obj, managed=True)
            case 8:
                talk.apply(
                    f"{place}/status", {**_head(obj), "status": {"observedGeneration": random.choice((1, 2))}}, manager
                )
            case 9:
                talk.apply(
                    place, {**_head(obj), **random.choice(_ODD_PARTS)}, manager, random.choice(("", "force=true"))
                )
            case 10:
                talk.patch(f"{place}?fieldManager={manager}", random.choice(_ODD_PATCHES), JSON_PATCH, managed=True)
            case _:
                talk.ask("PATCH", f"{place}?{random.choice(_ODD_QUERIES)}", obj, APPLY)
    talk.get(place, managed=True)
    talk.watch(path, last)
    talk.delete(place)


def _head(obj: Json) -> Json:
    return {key: obj[key] for key in ("apiVersion", "kind", "metadata")}


_ODD_PARTS: tuple[Json, ...] = (
    {},
    {"metadata": {"name": "other"}},
    {"metadata": {"name": "o", "labels": {"l": "1"}, "finalizers": ["a.example/x"]}},
    {"metadata": {"name": "o", "managedFields": [{"manager": "x"}]}},
    {"metadata": {"name": "o", "resourceVersion": "1"}},
    {"metadata": {"name": "o", "uid": "u"}},
    {"spec": {"odd": 1}},
    {"spec": 7},
    {"kind": "Odd"},
    {"apiVersion": "odd/v1"},
    {"metadata": {"name": "o", "ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "a", "uid": "u"}]}},
)
_ODD_PATCHES: tuple[Json, ...] = (
    [{"op": "replace", "path": "/metadata/managedFields", "value": [{}]}],
    [{"op": "replace", "path": "/metadata/managedFields", "value": []}],
    [{"op": "add", "path": "/metadata/annotations", "value": {"a": "b"}}],
    [{"op": "remove", "path": "/metadata/managedFields/0"}],
)
_ODD_QUERIES = (
    "",
    "fieldManager=",
    "fieldManager=one&force=x",
    "fieldManager=one&fieldValidation=Strict",
    "force=true",
)
