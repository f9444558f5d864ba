"""`answers/workloads.py`: the Workload of a job, and the events that end it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from phalanx.client.moment import read_moment
from phalanx.dialects.frame.dialect import Answer, GangStage, GangView, Object
from phalanx.dialects.kueue import kinds
from phalanx.dialects.kueue.answers.names import key_of
from phalanx.dialects.kueue.answers.workloads import deactivated, incomplete, waits_for_room, workload
from phalanx.dialects.kueue.tree.definitions import KueueDefinitions
from phalanx.model.reason import Reason, ReasonCode
from tests.dialects.kueue.test_workload_status import DEFINED, NO_ROOM, NOW, WAITS, said, told
from tests.dialects.kueue.written import cluster_queue, defined, group, local_queue

DEACTIVATED = Reason(code=ReasonCode.HELD, text="it is deactivated", numbers={"by": "deactivated"})
BEHIND = Reason(code=ReasonCode.BEHIND_HEAD, text="the queue is strict")
MEMBERS = Reason(code=ReasonCode.WAITING_FOR_MEMBERS, text="1 of 2")
RUNS = told(GangStage.RUNNING, ready=2)


@pytest.mark.parametrize(
    ("reported", "states"),
    [
        (WAITS, (False, False, False)),
        (replace(WAITS, reason=NO_ROOM), (False, False, True)),
        (replace(WAITS, reason=BEHIND), (False, False, False)),
        (replace(WAITS, reason=DEACTIVATED), (True, False, True)),
        (replace(WAITS, kind="PodGroup"), (False, True, False)),
        (replace(WAITS, kind="PodGroup", reason=MEMBERS), (False, True, False)),
        (replace(WAITS, kind="PodGroup", reason=NO_ROOM), (False, False, True)),
        (replace(WAITS, pod_sets=()), (False, True, False)),
        (replace(RUNS, pod_sets=(), reason=DEACTIVATED), (False, False, False)),
    ],
)
def test_what_a_gang_waits_for(reported: GangView, states: tuple[bool, bool, bool]) -> None:
    assert (deactivated(reported), incomplete(reported), waits_for_room(reported)) == states


def answer(reported: GangView, there: Object | None = None, now: str = NOW, of: KueueDefinitions = DEFINED) -> Answer:
    key = key_of(of, reported)
    return workload(of, reported, {kinds.WORKLOADS: {key: there} if there is not None else {}}, now)


def test_the_workload_has_the_pods_the_queue_and_the_owner_of_the_job() -> None:
    body: Any = answer(WAITS).body
    assert (body["spec"]["queueName"], body["spec"]["podSets"][0]["count"]) == ("l", 2)
    assert [owner["name"] for owner in body["metadata"]["ownerReferences"]] == ["j"]


def test_a_workload_ends_at_its_maximum_execution_time() -> None:
    begun = answer(RUNS)
    assert begun.status is not None
    there = {"metadata": {"uid": "w"}, "spec": {"maximumExecutionTimeSeconds": 60}, "status": begun.status}
    assert answer(RUNS, there).again_s == read_moment(NOW) + 60
    over = answer(RUNS, there, "2026-01-01T00:01:00Z")
    assert over.status is not None
    assert said(over.status, "DeactivationTarget") == "True MaximumExecutionTimeExceeded"
    assert over.spec is not None
    assert over.spec["active"] is False


def test_a_workload_that_a_check_rejects_is_deactivated() -> None:
    checked = defined(
        cluster_queues=[cluster_queue("a", group(f={"cpu": 4}), admissionChecks=["c"])],
        local_queues=[local_queue("l", "a")],
    )
    rejected = {"name": "c", "state": "Rejected", "message": "no", "lastTransitionTime": NOW}
    there: Object = {"metadata": {"uid": "w"}, "spec": {}, "status": {"admissionChecks": [rejected]}}
    found = answer(told(GangStage.RESERVED), there, of=checked)
    assert found.status is not None
    assert said(found.status, "DeactivationTarget") == "True AdmissionCheck"
    ended = answer(told(GangStage.FINISHED), there, of=checked)
    assert ended.status is not None
    assert said(ended.status, "DeactivationTarget") == "", "it has ended anyway"
