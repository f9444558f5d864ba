"""Events that Kueue records on Workloads and jobs."""

from __future__ import annotations

from typing import Any

import pytest

from phalanx.dialects.frame.dialect import GangStage, Object
from phalanx.dialects.kueue.events import occurrences
from tests.dialects.kueue.test_workload_status import told

GANG = told(GangStage.RUNNING)


def workload(**conditions: tuple[str, str, str] | tuple[str, str, str, str]) -> Object:
    """Conditions as (status, reason, message, time)."""
    listed = [
        {
            "type": kind,
            "status": said[0],
            "reason": said[1],
            "message": said[2],
            "lastTransitionTime": "".join(said[3:]),
        }
        for kind, said in conditions.items()
    ]
    meta = {"name": "w", "namespace": "default", "creationTimestamp": "2026-01-01T00:00:00Z"}
    return {"kind": "Workload", "metadata": meta, "status": {"conditions": listed}}


def reasons(before: Object | None, after: Object) -> list[str]:
    return [one.reason for one in occurrences(GANG, before, after)]


RESERVED = ("True", "QuotaReserved", "", "2026-01-01T00:00:05Z")
ADMITTED = ("True", "Admitted", "", "2026-01-01T00:00:07Z")


def test_a_workload_that_is_admitted() -> None:
    admitted = workload(QuotaReserved=RESERVED, Admitted=ADMITTED)
    assert reasons(None, admitted) == ["CreatedWorkload", "QuotaReserved", "Admitted", "Started"]
    texts = [one.text for one in occurrences(GANG, workload(), admitted)]
    assert texts[0] == "Quota reserved in ClusterQueue a, wait time since queued was 5s"
    assert texts[1] == "Admitted by ClusterQueue a, wait time since reservation was 2s"
    assert reasons(admitted, admitted) == []


def test_a_time_that_cannot_be_read_is_no_time() -> None:
    odd = workload(QuotaReserved=("True", "QuotaReserved", "", "soon"))
    [one] = occurrences(GANG, workload(), odd)
    assert one.text.endswith("was 0s")


def test_a_reason_to_wait_is_told_once_for_each_reason_and_not_for_each_number() -> None:
    first = workload(QuotaReserved=("False", "Pending", "3 more needed"))
    again = workload(QuotaReserved=("False", "Pending", "2 more needed"))
    other = workload(QuotaReserved=("False", "Inactive", "stopped"))
    [one] = occurrences(GANG, workload(), first)
    assert (one.reason, one.text, one.warning) == ("Pending", "3 more needed", True)
    assert reasons(first, again) == []
    assert reasons(again, other) == ["Pending"]


def test_a_preempted_workload_stops_its_job() -> None:
    before = workload(QuotaReserved=RESERVED)
    evicted = workload(Evicted=("True", "Preempted", "for b"), Preempted=("True", "InClusterQueue", "by b"))
    found = list(occurrences(GANG, before, evicted))
    assert [(one.reason, one.text) for one in found] == [
        ("Preempted", "by b"),
        ("EvictedDueToPreempted", "for b"),
        ("Stopped", "for b"),
    ]
    assert found[2].about["kind"] == "Job"
    assert found[0].about["kind"] == "Workload"


def test_the_end_is_told_on_the_job() -> None:
    assert reasons(workload(), workload(Finished=("True", "Succeeded", ""))) == ["FinishedWorkload"]


@pytest.mark.parametrize("before", [None, {}])
def test_a_request_for_nodes_is_told_on_its_workload_when_it_is_new(before: Any) -> None:
    owner = {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "Workload", "name": "w", "uid": "u"}
    request = {
        "kind": "ProvisioningRequest",
        "metadata": {"name": "r", "namespace": "default", "ownerReferences": [owner]},
    }
    found = [(one.about["metadata"]["name"], one.text) for one in occurrences(GANG, before, request)]
    assert found == ([("w", 'Created ProvisioningRequest: "r"')] if before is None else [])
