"""Server-side apply: the owners of fields, conflicts, and removed fields. Configurations are YAML, and owners a short
form of them."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import yaml

from phalanx.embedded.apimachinery.meta.resource import Resource, Subresource
from phalanx.embedded.apimachinery.meta.status import StatusError
from phalanx.embedded.apimachinery.patch.apply import apply
from phalanx.embedded.apimachinery.patch.managed_fields import track_create, track_update
from phalanx.embedded.apimachinery.patch.patch import MERGE_PATCH, apply_patch

Object = dict[str, Any]


def resource(group: str, kind: str, schema_name: str = "", **rest: Any) -> Resource:
    status = Subresource(name="status", kind=kind)
    return Resource(
        group=group, version="v1", kind=kind, plural=kind.lower() + "s", namespaced=True, schema_name=schema_name,
        **{"subresources": (status,), **rest},
    )  # fmt: skip


CONFIG_MAP = resource("", "ConfigMap", "io.k8s.api.core.v1.ConfigMap", subresources=())

POD = resource("", "Pod", "io.k8s.api.core.v1.Pod")

JOB = resource("batch", "Job", "io.k8s.api.batch.v1.Job")

SERVICE = resource("", "Service", "io.k8s.api.core.v1.Service")

WIDGET = resource(
    "example.com",
    "Widget",
    custom=True,
    schema=yaml.safe_load(
        """
        type: object
        properties:
          spec:
            type: object
            properties:
              parts:
                type: array
                x-kubernetes-list-type: map
                x-kubernetes-list-map-keys: [name]
                items: {type: object, properties: {name: {type: string}, value: {type: integer}}}
              tags: {type: array, x-kubernetes-list-type: set, items: {type: string}}
              plain: {type: array, items: {type: string}}
              whole: {type: object, x-kubernetes-map-type: atomic, additionalProperties: {type: string}}
              free: {type: object, x-kubernetes-preserve-unknown-fields: true}
          status: {type: object, properties: {phase: {type: string}}}
        """
    ),
)


class World:
    """One object and the writes to it, a second apart."""

    def __init__(self, kind: Resource = CONFIG_MAP) -> None:
        self.kind, self.obj, self.second = kind, None, 0

    obj: Object | None

    def _now(self) -> str:
        self.second += 1
        return f"2026-01-01T00:00:{self.second:02}Z"

    def apply(self, manager: str, text: str, *, force: bool = False, subresource: str = "") -> Object:
        config = {
            "apiVersion": self.kind.api_version,
            "kind": self.kind.kind,
            "metadata": {"name": "x"},
            **yaml.safe_load(text),
        }
        before = copy.deepcopy(self.obj)
        found = apply(self.kind, self.obj, config, manager, force=force, subresource=subresource, now=self._now())
        assert self.obj == before, "an apply must not change the live object"
        self.obj = found
        return found

    def create(self, manager: str, text: str) -> None:
        obj = {"apiVersion": self.kind.api_version, "kind": self.kind.kind, "metadata": {"name": "x", "uid": "u"}}
        self.obj = obj | yaml.safe_load(text)
        track_create(self.kind, self.obj, manager, self._now())

    def patch(self, manager: str, text: str, subresource: str = "") -> None:
        assert self.obj is not None
        new = apply_patch(MERGE_PATCH, copy.deepcopy(self.obj), yaml.safe_load(text), None)
        track_update(self.kind, new, self.obj, manager, subresource, self._now())
        self.obj = new

    def owners(self) -> dict[str, Any]:
        assert self.obj is not None
        return {
            " ".join(filter(None, (entry["manager"], entry["operation"], entry.get("subresource")))): entry["fieldsV1"]
            for entry in self.obj["metadata"].get("managedFields", [])
        }

    def refusal(self, manager: str, text: str) -> Object:
        with pytest.raises(StatusError) as caught:
            self.apply(manager, text)
        return caught.value.status()


def test_applying_to_nothing_creates() -> None:
    world = World()
    obj = world.apply("one", "{data: {k: v}, metadata: {name: x, labels: {l: '1'}}}")
    assert obj["data"] == {"k": "v"}
    assert world.owners() == {"one Apply": {"f:data": {"f:k": {}}, "f:metadata": {"f:labels": {"f:l": {}}}}}


def test_applying_the_same_again_changes_nothing() -> None:
    world = World()
    first = world.apply("one", "{data: {k: v}}")
    assert world.apply("one", "{data: {k: v}}") is first


def test_a_field_left_out_goes() -> None:
    world = World()
    world.apply("one", "{data: {k: v, m: w}, metadata: {name: x, labels: {l: '1'}}}")
    obj = world.apply("one", "{data: {k: v2}}")
    assert obj["data"] == {"k": "v2"}
    assert "labels" not in obj["metadata"]
    assert world.owners() == {"one Apply": {"f:data": {"f:k": {}}}}


def test_the_same_value_is_shared_and_stays_until_nobody_wants_it() -> None:
    world = World()
    world.apply("one", "{data: {k: same, o: one}}")
    world.apply("two", "{data: {k: same}}")
    assert world.apply("one", "{data: {o: one}}")["data"] == {"k": "same", "o": "one"}
    assert world.apply("two", "{}")["data"] == {"o": "one"}
    assert world.owners() == {"one Apply": {"f:data": {"f:o": {}}}}


def test_another_value_conflicts_and_force_takes_the_field() -> None:
    world = World()
    world.apply("one", "{data: {k: one, o: one}}")
    assert world.refusal("two", "{data: {k: two}}") == {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": 'Apply failed with 1 conflict: conflict with "one": .data.k',
        "reason": "Conflict",
        "details": {
            "causes": [{"reason": "FieldManagerConflict", "message": 'conflict with "one"', "field": ".data.k"}]
        },
        "code": 409,
    }
    world.apply("two", "{data: {k: two}}", force=True)
    assert world.owners() == {"one Apply": {"f:data": {"f:o": {}}}, "two Apply": {"f:data": {"f:k": {}}}}


def test_several_conflicts_are_listed_by_manager() -> None:
    world = World(POD)
    world.apply("one", "{spec: {containers: [{name: a, image: '1'}]}}")
    world.apply("two", "{spec: {containers: [{name: b, image: '2'}]}}")
    message = world.refusal("three", "{spec: {containers: [{name: a, image: x}, {name: b, image: y}]}}")["message"]
    assert message == (
        'Apply failed with 2 conflicts: conflicts with "one":\n- .spec.containers[name="a"].image\n'
        'conflicts with "two":\n- .spec.containers[name="b"].image'
    )


CONTAINERS = {
    "an item of another manager stays": ("[a]", "[b]", "[a, b]"),
    "shared items come in the order of the configuration": ("[a, b]", "[b, a]", "[b, a]"),
    "new items stand between the shared ones": ("[a, c]", "[a, b, c]", "[a, b, c]"),
    "what only the live object has keeps its place": ("[a, live, b]", "[b, a]", "[live, b, a]"),
}


@pytest.mark.parametrize(("live", "config", "after"), CONTAINERS.values(), ids=CONTAINERS)
def test_items_with_a_key_merge(live: str, config: str, after: str) -> None:
    def containers(names: str) -> str:
        return f"{{spec: {{containers: {[{'name': name} for name in yaml.safe_load(names)]}}}}}"

    world = World(POD)
    world.apply("one", containers(live))
    obj = world.apply("two", containers(config))
    assert [container["name"] for container in obj["spec"]["containers"]] == yaml.safe_load(after)


def test_an_item_goes_when_nobody_wants_it() -> None:
    world = World(JOB)
    job = "{spec: {template: {spec: {containers: [{name: c, env: [%s]}]}}}}"
    world.apply("one", job % "{name: A, value: '1'}, {name: B, value: '2'}")
    world.apply("two", job % "{name: C, value: '3'}")
    obj = world.apply("one", job % "{name: B, value: '2'}")
    [container] = obj["spec"]["template"]["spec"]["containers"]
    assert [env["name"] for env in container["env"]] == ["B", "C"]


def test_a_port_is_told_apart_by_its_default_protocol_too() -> None:
    world = World(SERVICE)
    world.apply("one", "{spec: {ports: [{port: 53, protocol: UDP, name: u}, {port: 53, name: t}]}}")
    obj = world.apply("two", "{spec: {ports: [{port: 53, protocol: TCP, targetPort: 1053}]}}")
    assert [port.get("targetPort") for port in obj["spec"]["ports"]] == [None, 1053]
    ports = world.owners()["two Apply"]["f:spec"]["f:ports"]
    assert list(ports) == ['k:{"port":53,"protocol":"TCP"}']


WIDGETS = {
    "a list of type map": ("{parts: [{name: p}]}", "{parts: [{name: q}]}", "parts: [{name: p}, {name: q}]"),
    "a set": ("{tags: [a, b]}", "{tags: [b, c]}", "tags: [a, b, c]"),
    "an atomic list is replaced": ("{plain: [a]}", "{plain: [b]}", "plain: [b]"),
    "an atomic map is replaced": ("{whole: {a: '1'}}", "{whole: {b: '2'}}", "whole: {b: '2'}"),
    "a free object merges": ("{free: {a: {x: 1}}}", "{free: {a: {y: 2}}}", "free: {a: {x: 1, y: 2}}"),
}  # fmt: skip


@pytest.mark.parametrize(("live", "config", "after"), WIDGETS.values(), ids=WIDGETS)
def test_lists_and_maps_of_custom_resources_merge_as_their_schema_says(live: str, config: str, after: str) -> None:
    world = World(WIDGET)
    world.apply("one", f"{{spec: {live}}}")
    assert world.apply("two", f"{{spec: {config}}}", force=True)["spec"] == yaml.safe_load(after)


@pytest.mark.parametrize(
    ("config", "code", "message"),
    [
        ("{metadata: {name: x, managedFields: []}}", 400, "metadata.managedFields must be nil"),
        ("{kind: ''}", 400, "invalid object type: batch/v1, Kind="),
        ("{apiVersion: v1, kind: Pod}", 400, "invalid object type: /v1, Kind=Pod"),
        (
            "{spec: {nope: 1}}",
            500,
            "failed to create typed patch object (/x; batch/v1, Kind=Job): .spec.nope: field not declared in schema",
        ),
        (
            "{spec: {parallelism: many, template: {spec: {containers: [{image: i}, {image: j}]}}}}",
            500,
            "failed to create typed patch object (/x; batch/v1, Kind=Job): errors:\n"
            "  .spec.parallelism: expected numeric (int or float), got string\n"
            '  .spec.template.spec.containers: duplicate entries for key [name=""]',
        ),
        (
            "{spec: {template: {spec: {containers: [{name: c}, {name: c}]}}}}",
            500,
            "failed to create typed patch object (/x; batch/v1, Kind=Job): "
            '.spec.template.spec.containers: duplicate entries for key [name="c"]',
        ),
    ],
)
def test_what_is_no_configuration_of_the_kind_is_refused(config: str, code: int, message: str) -> None:
    status = World(JOB).refusal("one", config)
    assert (status["code"], status["message"]) == (code, message)
