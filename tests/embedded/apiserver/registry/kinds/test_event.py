"""Events are one thing in two versions."""

from __future__ import annotations

from typing import Any

import pytest

from phalanx.embedded.apiserver.registry.kinds.workloads.event import from_core, to_core
from tests.embedded.apiserver.registry.kinds.writes import Object, create, refusal, resource

NEW = "events.k8s.io"
NOW = "2026-01-01T00:00:00.000000Z"


def new_event(**fields: Any) -> Object:
    body = {
        "eventTime": NOW,
        "reportingController": "example.com/c",
        "reportingInstance": "c-1",
        "action": "Bind",
        "reason": "Scheduled",
        "type": "Normal",
        "note": "assigned",
        "regarding": {"kind": "Pod", "name": "p", "namespace": "ns"},
    }
    return {"metadata": {"name": "e"}} | body | fields


def test_a_new_event_is_stored_in_the_core_shape() -> None:
    obj = create("events", new_event(), group=NEW)
    assert obj["apiVersion"] == "v1"
    assert obj["involvedObject"] == {"kind": "Pod", "name": "p", "namespace": "ns"}
    assert (obj["message"], obj["reportingComponent"]) == ("assigned", "example.com/c")
    assert (obj["source"], obj["firstTimestamp"]) == ({}, None)


def test_the_two_shapes_tell_the_same() -> None:
    core = create("events", new_event(), group=NEW)
    shown = from_core(core)
    assert (shown["note"], shown["regarding"]["name"], shown["deprecatedSource"]) == ("assigned", "p", {})
    assert to_core(shown) == core


@pytest.mark.parametrize(
    ("fields", "lines"),
    [
        ({}, []),
        ({"type": "Odd"}, ['type: Invalid value: "": has invalid value: Odd']),
        ({"deprecatedCount": 1}, ['count: Invalid value: "": needs to be unset']),
        ({"action": ""}, ["action: Required value"]),
        ({"eventTime": None}, ["eventTime: Required value"]),
        ({"series": {"count": 1, "lastObservedTime": NOW}}, ['series.count: Invalid value: "": should be at least 2']),
    ],
)
def test_the_new_version_insists_on_its_fields(fields: Object, lines: list[str]) -> None:
    assert refusal("events", new_event(**fields), group=NEW) == lines


def test_an_old_event_may_be_sparse_but_is_about_its_namespace() -> None:
    about = {"kind": "Pod", "name": "p", "namespace": "ns"}
    assert refusal("events", {"metadata": {"name": "e"}, "involvedObject": about}, group="") == []
    elsewhere = about | {"namespace": "other"}
    assert refusal("events", {"metadata": {"name": "e"}, "involvedObject": elsewhere}, group="") == [
        'involvedObject.namespace: Invalid value: "other": does not match event.namespace'
    ]


def test_events_are_selected_by_what_they_are_about() -> None:
    obj = create("events", new_event(), group=NEW)
    fields = resource("events", "").strategy.selectable_fields(obj)
    assert (fields["involvedObject.name"], fields["source"], fields["type"]) == ("p", "example.com/c", "Normal")
    assert resource("events", NEW).strategy.selectable_fields(obj)["regarding.name"] == "p"
