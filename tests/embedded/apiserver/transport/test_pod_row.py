"""The rows of pods, as `kubectl get` shows them."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from phalanx.embedded.apimachinery.meta.resource import Resource
from phalanx.embedded.apiserver.registry.builtin import RESOURCES
from phalanx.embedded.apiserver.transport.tables.printer import seconds_of
from phalanx.embedded.apiserver.transport.tables.table import as_table

BORN, NOW_S = "2026-01-01T00:00:00Z", seconds_of("2026-01-01T00:10:00Z")


def kind(name: str) -> Resource:
    return next(one for one in RESOURCES if one.kind == name)


def row(resource: Resource, text: str, include_object: str = "") -> dict[str, Any]:
    obj = yaml.safe_load(text)
    obj.setdefault("metadata", {}).update({"name": "x", "creationTimestamp": BORN})
    [found] = as_table(resource, [obj], include_object, now_s=NOW_S)["rows"]
    return dict(found)


def pod(status: str, spec: str = "{containers: [{name: a}, {name: b}]}", metadata: str = "{}") -> list[Any]:
    cells: list[Any] = row(kind("Pod"), f"{{spec: {spec}, status: {status}, metadata: {metadata}}}")["cells"]
    return cells


# status -> ready, status, restarts
PODS = {
    "waits to be scheduled": ("{phase: Pending}", "0/2 Pending 0"),
    "is gated": (
        "{phase: Pending, conditions: [{type: PodScheduled, status: 'False', reason: SchedulingGated}]}",
        "0/2 SchedulingGated 0",
    ),
    "one of two crashes": (
        """{phase: Running, containerStatuses: [
             {name: a, ready: true, restartCount: 2, state: {running: {}}},
             {name: b, ready: false, restartCount: 0, state: {waiting: {reason: CrashLoopBackOff}}}]}""",
        "1/2 CrashLoopBackOff 2",
    ),
    "says when it last restarted": (
        """{phase: Running, containerStatuses: [{name: a, ready: true, restartCount: 1, state: {running: {}},
             lastState: {terminated: {finishedAt: '2026-01-01T00:07:00Z'}}}]}""",
        "1/2 Running 1 (3m ago)",
    ),
    "exited without a reason": (
        "{phase: Failed, containerStatuses: [{name: a, state: {terminated: {exitCode: 7}}}]}",
        "0/2 ExitCode:7 0",
    ),
    "was killed": (
        "{phase: Failed, containerStatuses: [{name: a, state: {terminated: {exitCode: 137, signal: 9}}}]}",
        "0/2 Signal:9 0",
    ),
    "was evicted": ("{phase: Failed, reason: Evicted}", "0/2 Evicted 0"),
    "one is done, one runs": (
        """{phase: Running, conditions: [{type: Ready, status: 'True'}], containerStatuses: [
             {name: a, state: {terminated: {exitCode: 0, reason: Completed}}},
             {name: b, ready: true, state: {running: {}}}]}""",
        "1/2 Running 0",
    ),
}


@pytest.mark.parametrize(("status", "shown"), PODS.values(), ids=PODS)
def test_a_pod(status: str, shown: str) -> None:
    assert " ".join(pod(status)[1:4]) == shown


INIT = "{initContainers: [{name: i}, {name: s, restartPolicy: Always}], containers: [{name: a}]}"

INIT_PODS = {
    "init runs": ("[{name: i, state: {running: {}}}, {name: s, state: {waiting: {}}}]", "0/2 Init:0/2"),
    "init failed": ("[{name: i, state: {terminated: {exitCode: 1, reason: Error}}}]", "0/2 Init:Error"),
    "init cannot pull": ("[{name: i, state: {waiting: {reason: ErrImagePull}}}]", "0/2 Init:ErrImagePull"),
    "a sidecar counts as ready": (
        "[{name: i, state: {terminated: {exitCode: 0}}}, {name: s, started: true, ready: true, state: {running: {}}}]",
        "1/2 Pending",
    ),
}


@pytest.mark.parametrize(("statuses", "shown"), INIT_PODS.values(), ids=INIT_PODS)
def test_a_pod_that_initializes(statuses: str, shown: str) -> None:
    cells = pod(f"{{phase: Pending, initContainerStatuses: {statuses}}}", INIT)
    assert " ".join(cells[1:3]) == shown


def test_a_pod_that_is_being_deleted_terminates_unless_it_has_ended() -> None:
    assert pod("{phase: Running}", metadata=f"{{deletionTimestamp: '{BORN}'}}")[2] == "Terminating"
    assert pod("{phase: Succeeded}", metadata=f"{{deletionTimestamp: '{BORN}'}}")[2] == "Succeeded"


def test_a_finished_pod_is_marked_completed() -> None:
    [condition] = row(kind("Pod"), "{spec: {containers: []}, status: {phase: Succeeded}}")["conditions"]
    assert (condition["type"], condition["reason"]) == ("Completed", "Succeeded")
