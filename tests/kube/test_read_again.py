"""A pod that was read already is read again cheaply: the result is as if it had been read anew."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest

from phalanx.kube.read.pod import Pod, read_changed_pod, read_pod
from phalanx.kube.read.template.pod_shape import ShapeCache

Object = dict[str, Any]


def pod(**spec: Any) -> Object:
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": "job", "controller": True}
    meta = {"name": "a", "namespace": "d", "uid": "u", "resourceVersion": "1", "ownerReferences": [owner]}
    containers = [{"name": "c", "resources": {"requests": {"cpu": "2"}}}]
    return {"metadata": meta, "spec": {"schedulerName": "phalanx", "containers": containers, **spec}, "status": {}}


def change(old: Object, edit: Callable[[Object], object]) -> Object:
    new = copy.deepcopy(old)
    new["metadata"]["resourceVersion"] = "2"
    edit(new)
    return new


def both(old: Object, new: Object) -> tuple[Pod | None, Pod]:
    shapes = ShapeCache()
    return read_changed_pod(read_pod(old, shapes), old, new), read_pod(new, shapes)


def bound(obj: Object) -> None:
    obj["spec"]["nodeName"] = "n"


def running(obj: Object) -> None:
    conditions = [{"type": "Ready", "status": "True"}]
    obj["status"] = {"phase": "Running", "reason": "r", "message": "m", "conditions": conditions}


def refused(obj: Object) -> None:
    condition = {"type": "PodScheduled", "status": "False", "message": "NoRoom: none"}
    obj["status"] = {"phase": "Pending", "conditions": [condition], "nominatedNodeName": "n"}


def going(obj: Object) -> None:
    obj["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"


@pytest.mark.parametrize("edit", [bound, running, refused, going])
@pytest.mark.parametrize("scheduler", ["phalanx", "default-scheduler"])
def test_what_servers_and_nodes_say_of_it_is_taken_over(edit: Callable[[Object], None], scheduler: str) -> None:
    old = pod(schedulerName=scheduler)
    again, anew = both(old, change(old, edit))
    assert again == anew


@pytest.mark.parametrize(
    "edit",
    [
        lambda obj: obj["metadata"].update(labels={"phalanx.dev/queue": "q"}),
        lambda obj: obj["metadata"].update(annotations={"phalanx.dev/admitted": "{}"}),
        lambda obj: obj["metadata"].update(ownerReferences=[]),
        lambda obj: obj["spec"].pop("schedulingGates"),
        lambda obj: obj["spec"].update(nodeName="n", tolerations=[{"operator": "Exists"}]),
        lambda obj: obj["spec"]["containers"][0]["resources"].update(requests={"cpu": "3"}),
    ],
)
def test_whatever_else_was_changed_is_read_anew(edit: Callable[[Object], object]) -> None:
    old = pod(schedulingGates=[{"name": "g"}])
    assert both(old, change(old, edit))[0] is None


def test_what_its_kubelet_grants_it_is_read_anew() -> None:
    old = pod(nodeName="n")
    granted = [{"name": "c", "allocatedResources": {"cpu": "4"}}]
    new = change(old, lambda obj: obj["status"].update(containerStatuses=granted))
    again, anew = both(old, new)
    assert again is None
    assert dict(anew.requests)["cpu"] == 4000
    later = change(new, running)
    later["status"]["containerStatuses"] = granted
    shapes = ShapeCache()
    assert read_changed_pod(read_pod(new, shapes), new, later) == read_pod(later, shapes)


def test_another_state_than_the_one_that_was_read_is_no_ground() -> None:
    old = pod()
    known = read_pod(old, ShapeCache())
    between = change(old, bound)
    assert read_changed_pod(known, between, change(between, running)) is None
