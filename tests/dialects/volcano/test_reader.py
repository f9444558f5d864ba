"""What Volcano's PodGroups, Queues and pods say, in our nouns, and what is written back."""

from __future__ import annotations

from typing import Any

import pytest

from phalanx.dialects.fields import LONGEST_S, Misread
from phalanx.dialects.volcano.reader import (
    Phase,
    PodGroup,
    Told,
    read_pod,
    read_pod_group,
    read_queue,
    report,
)
from phalanx.model.queue import Queue, QueueState, Quota, ReclaimWithinCohort
from phalanx.model.reason import Reason, ReasonCode

NOW = "2026-01-01T00:00:00Z"


def test_a_pod_group() -> None:
    spec = {
        "minMember": 3,
        "minTaskMember": {"ps": 1, "worker": 0},
        "minResources": {"cpu": "3", "memory": "1Gi"},
        "queue": "lab",
        "priorityClassName": "high",
    }
    assert read_pod_group(spec) == PodGroup(
        queue="lab", minimum=3, tasks=(("ps", 1),), whole=(("cpu", 3000), ("memory", 1 << 30)), priority_class="high"
    )


@pytest.mark.parametrize("spec", [{}, {"minMember": 0}, {"minMember": None, "queue": ""}])
def test_one_that_says_nothing_starts_by_itself(spec: Any) -> None:
    assert read_pod_group(spec) == PodGroup()


def test_what_cannot_be_is_said() -> None:
    with pytest.raises(Misread, match=r"spec\.minMember: 'three' is no whole number"):
        read_pod_group({"minMember": "three"})


def test_tasks_count_only_where_the_minimum_covers_them_all() -> None:
    assert read_pod_group({"minMember": 1, "minTaskMember": {"a": 1, "b": 5}}).tasks == ()
    assert read_pod_group({"minMember": 6, "minTaskMember": {"a": 1, "b": 5}}).tasks == (("a", 1), ("b", 5))


def test_quotas_of_pods_are_no_room() -> None:
    """Volcano's controllers write the names that a ResourceQuota has beside the resources."""
    whole = {"cpu": 1, "count/pods": 2, "requests.cpu": 1, "limits.cpu": 1}
    assert read_pod_group({"minResources": whole}).whole == (("cpu", 1000),)


def test_a_queue() -> None:
    spec = {
        "weight": 4,
        "priority": 2,
        "parent": "lab",
        "dequeueStrategy": "fifo",
        "capability": {"cpu": 10},
        "deserved": {"cpu": 6},
        "guarantee": {"resource": {"cpu": 2}},
    }
    queue = read_queue("vision", spec)
    assert (queue.weight, queue.priority, queue.parent, queue.strict) == (4.0, 2, "lab", True)
    assert queue.quotas == (Quota(guaranteed=(("cpu", 6000),), limit=(("cpu", 10_000),), lend=(("cpu", 4000),)),)
    assert queue.preemption.reclaim is ReclaimWithinCohort.ANY


@pytest.mark.parametrize(
    ("spec", "state", "expected"),
    [
        ({"parent": "root"}, "Open", Queue(name="q")),
        ({}, "Closed", Queue(name="q", state=QueueState.CLOSED)),
        ({}, "Closing", Queue(name="q", state=QueueState.CLOSED)),
    ],
)
def test_a_queue_that_says_little(spec: Any, state: str, expected: Queue) -> None:
    assert read_queue("q", spec, state) == expected


def test_a_queue_from_which_nothing_is_reclaimed() -> None:
    assert read_queue("q", {"reclaimable": False}).preemption.min_run_s == LONGEST_S


def test_annotations_count_before_labels() -> None:
    says = read_pod(
        {"annotations": {"scheduling.k8s.io/group-name": "a"}, "labels": {"volcano.sh/preemptable": "true"}}
    )
    assert (says.group, says.preemptible) == ("a", "true")
    assert read_pod({"annotations": {"scheduling.volcano.sh/group-name": "b"}}).group == "b"


def test_a_condition_keeps_its_time_while_it_says_the_same() -> None:
    told = Told(phase=Phase.PENDING, pods=2, lacking=2, reason=Reason(code=ReasonCode.NO_ROOM, text="placed 1 of 2"))
    first = report(told, {}, NOW)
    assert first["conditions"][0] == {
        "type": "Unschedulable",
        "status": "True",
        "reason": "NotEnoughResources",
        "message": "2/2 tasks in gang unschedulable: NoRoom: placed 1 of 2",
        "lastTransitionTime": NOW,
    }
    assert report(told, first, "2027-01-01T00:00:00Z") == first
    both = report(Told(phase=Phase.RUNNING, running=2), first, NOW)["conditions"]
    assert [(one["type"], one["reason"]) for one in both] == [
        ("Unschedulable", "NotEnoughResources"),  # stays, as in Volcano; the newest counts
        ("Scheduled", "tasks in gang are ready to be scheduled"),
    ]
