"""PodGroups of Kubernetes: which gang a pod is in, and the conditions of its group."""

from __future__ import annotations

from typing import Any

import pytest

from phalanx.dialects.frame.dialect import Eviction, GangStage, GangView, Object, PodSet, Said
from phalanx.dialects.kube_scheduler.kubernetes import kinds
from phalanx.dialects.kube_scheduler.kubernetes.groups import OBJECT, OF_WORKLOAD, answer, claim, gang_of, options_of
from phalanx.model.reason import Reason, ReasonCode

KIND = next(iter(kinds.POD_GROUPS))
JOB = "phalanx.dev/job"
NOW = "2026-01-01T00:00:00Z"


def options(scheduler: str = "phalanx", *, made: bool = False, **named: Any) -> dict[str, str]:
    owners = [{"kind": "Job", "name": "j", "controller": True}] if made else []
    return dict(options_of({"group": named, "ownerReferences": owners}, scheduler))


def test_a_pod_names_its_group_or_a_workload() -> None:
    found = options(schedulingGroup={"podGroupName": "g"})
    assert found[OBJECT] == "g"
    assert f"ns/{found[JOB]}" == gang_of({"metadata": {"namespace": "ns", "name": "g"}})
    reference = {"name": "w", "podGroup": "p", "podGroupReplicaKey": "0"}
    first, second = (options(workloadRef={**reference, "podGroupReplicaKey": key}) for key in ("0", "1"))
    assert first[OF_WORKLOAD] == second[OF_WORKLOAD] == "w/p"
    assert first[JOB] != second[JOB]


def test_pods_without_a_group_and_of_other_schedulers_are_left_alone() -> None:
    assert options() == options(workloadRef={"podGroup": "p"}) == options(schedulingGroup={}) == {}
    assert options("volcano", schedulingGroup={"podGroupName": "g"}) == {}


def test_failed_pods_of_a_controller_are_replaced() -> None:
    assert "phalanx.dev/replaces-failed" in options(made=True, schedulingGroup={"podGroupName": "g"})
    assert "phalanx.dev/replaces-failed" not in options(schedulingGroup={"podGroupName": "g"})


def claimed(spec: Object | None, workloads: Any = None, **options_: str) -> Any:
    said = Said(gang="ns/g", namespace="ns", queue="q", options=options_ or {OBJECT: "g"})
    objects = {} if spec is None else {KIND: {"ns/g": {"metadata": {"name": "g"}, "spec": spec}}}
    return claim(said, objects, workloads or {})


@pytest.mark.parametrize(
    ("policy", "minimum"), [({"gang": {"minCount": 3}}, 3), ({"gang": {}}, 1), ({"basic": {}}, 1), ({}, 1)]
)
def test_the_minimum_is_that_of_the_policy(policy: Object, minimum: int) -> None:
    assert claimed({"schedulingPolicy": policy}).group.minimum == minimum


def test_a_group_has_a_priority_and_a_topology() -> None:
    found = claimed({"priority": 7, "schedulingConstraints": {"topology": [{"key": "rack"}]}})
    assert (found.priority, dict(found.options)) == (7, {"phalanx.dev/closeness": "rack"})


def test_a_group_that_is_missing_is_waited_for() -> None:
    assert claimed(None).blocked.text == "the PodGroup g, which its pods name, does not exist yet: create it"
    other = claimed(None, **{OF_WORKLOAD: "w/p"})
    assert "the group p of the Workload w" in other.blocked.text
    workload = {"ns/w": {"spec": {"podGroups": [{"name": "p", "policy": {"gang": {"minCount": 2}}}]}}}
    assert claimed(None, workload, **{OF_WORKLOAD: "w/p"}).group.minimum == 2
    assert claimed(None, other="x") is None


def told(stage: GangStage, reason: Reason | None = None, evicted: Eviction | None = None) -> GangView:
    pods = PodSet(name="", count=1, minimum=1, request=(), template={})
    return GangView(id="ns/g", namespace="ns", kind="PodGroup", owners=(), options={OBJECT: "g"}, queue="q", priority=0,
                stage=stage, pod_sets=(pods,), reason=reason, evicted=evicted)  # fmt: skip


def conditions(report: GangView, *before: Object) -> list[Object] | None:
    group = {"metadata": {"name": "g", "generation": 2}, "status": {"conditions": list(before)}}
    found = [each.status["conditions"] for each in answer(report, {KIND: {"ns/g": group}}, NOW)]
    return found[0] if found else None


NO_ROOM = Reason(code=ReasonCode.NO_ROOM, text="no room")


def test_a_group_that_waits_and_starts() -> None:
    [waits] = conditions(told(GangStage.WAITING, NO_ROOM))
    assert (waits["type"], waits["status"], waits["reason"]) == (kinds.SCHEDULED[KIND], "False", "Unschedulable")
    assert (waits["message"], waits["observedGeneration"]) == ("no room", 2)
    [runs] = conditions(told(GangStage.RUNNING), waits)
    assert (runs["status"], runs["reason"]) == ("True", "Scheduled")
    assert conditions(told(GangStage.WAITING, NO_ROOM), runs) is None, "it never changes back"


def test_a_gang_that_was_not_tried_is_not_unschedulable() -> None:
    assert conditions(told(GangStage.WAITING, Reason(code=ReasonCode.BEHIND_HEAD, text="b"))) is None
    assert conditions(told(GangStage.WAITING)) is None


def test_a_group_that_does_not_exist_gets_no_status() -> None:
    assert list(answer(told(GangStage.RUNNING), {}, NOW)) == []
