"""`answers/workload_status.py`: the conditions of a Workload about its pods and about its wait."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from phalanx.dialects.frame.dialect import Eviction, GangStage, GangView, Object, PodSet
from phalanx.dialects.kueue import kinds
from phalanx.dialects.kueue.answers.workload_status import workload_status
from phalanx.model.reason import Reason, ReasonCode
from tests.dialects.kueue.written import cluster_queue, defined, group, local_queue, named

NOW = "2026-01-01T00:00:00Z"
DEFINED = defined(cluster_queues=[cluster_queue("a", group(f={"cpu": 4}))], local_queues=[local_queue("l", "a")])
STOPPED = Reason(code=ReasonCode.QUEUE_HELD, text="ClusterQueue a: is stopped")
NO_ROOM = Reason(code=ReasonCode.NO_ROOM, text="no room")
WAITING, CHANGED = "WaitingForReplacementPods", ("Evicted", "QuotaReserved")


def told(stage: GangStage, kind: str = "Job", owners: tuple[Object, ...] = (), **pods: Any) -> GangView:
    usual: dict[str, Any] = {"name": "main", "count": 2, "minimum": 2, "placed": 2, "template": {}}
    labels = {"kueue.x-k8s.io/queue-name": "l"}
    job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "j", "uid": "1", "labels": labels}}
    return GangView(
        id="default/j",
        namespace="default",
        kind=kind,
        owners=owners or (job,),
        options={},
        queue=kinds.tree_queue("a"),
        priority=0,
        stage=stage,
        pod_sets=(PodSet(**{**usual, "request": (("cpu", 1000),), **pods}),),
    )


def after(old: Object, *steps: GangView) -> Object:
    """Return the status after all these reports, in order."""
    for step in steps:
        old, _ = workload_status(DEFINED, step, old, {}, NOW)
    return old


def said(status: Object, kind: str) -> str:
    """`status reason` of a condition; empty: there is none."""
    return next((f"{one['status']} {one['reason']}" for one in status["conditions"] if one["type"] == kind), "")


RUNS, FAILS = told(GangStage.RUNNING, ready=2), told(GangStage.RUNNING, ready=1)
WAITS = told(GangStage.WAITING, placed=0)


@pytest.mark.parametrize(
    ("steps", "ready"),
    [
        ((FAILS,), "False WaitForStart"),
        ((FAILS, RUNS), "True Started"),
        ((RUNS, FAILS), "False WaitForRecovery"),
        ((RUNS, FAILS, FAILS, RUNS), "True Recovered"),
        ((RUNS, told(GangStage.RUNNING, ready=1, succeeded=1)), "True Started"),
    ],
)
def test_pods_that_were_ready_recover(steps: tuple[GangView, ...], ready: str) -> None:
    assert said(after({}, *steps), "PodsReady") == ready


def gives_way(stage: GangStage) -> GangView:
    why = Reason(code=ReasonCode.PREEMPTED, text="it gives way", numbers={"kueue": "InCohortFairSharing"})
    return replace(told(stage), evicted=Eviction(reason=why, preempted=True))


def test_what_gives_way_says_by_what_right() -> None:
    assert said(after({}, RUNS, gives_way(GangStage.LEAVING)), "Preempted") == "True InCohortFairSharing"


def test_what_starts_again_at_once_recovers_and_what_waits_first_starts() -> None:
    assert said(after({}, RUNS, gives_way(GangStage.LEAVING), FAILS, RUNS), "PodsReady") == "True Recovered"
    assert said(after({}, RUNS, gives_way(GangStage.LEAVING), WAITS, FAILS, RUNS), "PodsReady") == "True Started"


def a_pod(phase: str, **meta: str) -> Object:
    metadata = {"name": "p", "uid": "1", "labels": {}, **meta}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {}, "status": {"phase": phase}}


def of_group(*pods: Object, stage: GangStage = GangStage.RUNNING) -> GangView:
    return told(stage, "PodGroup", pods)


def test_a_group_says_which_of_its_pods_are_to_be_made_anew() -> None:
    runs, failed = a_pod("Running"), a_pod("Failed")
    gone = a_pod("Pending", deletionTimestamp=NOW)
    assert said(after({}, of_group(runs, runs)), WAITING) == ""
    assert said(after({}, of_group(runs, failed)), WAITING) == "True PodsFailed"
    assert said(after({}, of_group(runs, gone)), WAITING) == "True PodsFailed"
    assert said(after({}, of_group(runs, failed), of_group(runs, failed, runs)), WAITING) == "False PodsReady"
    stopped = replace(of_group(runs, failed, stage=GangStage.LEAVING), evicted=Eviction(reason=STOPPED))
    assert said(after({}, of_group(runs, runs), stopped), WAITING) == "True ClusterQueueStopped"


def test_what_had_its_quota_reserved_only_is_not_evicted_by_a_queue_that_stops() -> None:
    stopped = replace(told(GangStage.WAITING, placed=0), reason=STOPPED, evicted=Eviction(reason=STOPPED))
    admitted, reserved = after({}, RUNS, stopped), after({}, told(GangStage.RESERVED), stopped)
    assert [said(admitted, kind) for kind in CHANGED] == ["True ClusterQueueStopped", "False Suspended"]
    assert [said(reserved, kind) for kind in CHANGED] == ["", "False Suspended"]
    assert "admission" not in reserved


@pytest.mark.parametrize(
    ("count", "minimum", "why"),
    [
        (3, 3, "WaitingForQuota"),
        (4, 2, "WaitingForQuota"),
        (5, 2, "ExceedsMaxQuota"),  # four never fit; it waits for capacity for two
    ],
)
def test_more_than_the_queue_will_ever_have(count: int, minimum: int, why: str) -> None:
    waits = replace(told(GangStage.WAITING, count=count, minimum=minimum, placed=0), reason=NO_ROOM)
    assert said(after({}, waits), "QuotaReserved") == f"False {why}"


def test_what_a_cohort_lends_is_within_reach() -> None:
    def reach(**own: int) -> dict[tuple[str, str], int]:
        first = cluster_queue("a", group(f={"cpu": {"nominalQuota": 4, **own}}), cohortName="team")
        other = cluster_queue("b", group(f={"cpu": 6}), cohortName="team")
        found = defined(cluster_queues=[first, other], cohorts=[named("team", spec={"parentName": "all"})])
        return found.capacity(found.cluster_queues["a"].node)

    assert reach() == {("f", "cpu"): 10_000}
    assert reach(borrowingLimit=2) == {("f", "cpu"): 6_000}
