"""What Volcano's users read of a gang: phase, counts and conditions of its PodGroup, what its Queues have allocated."""

from __future__ import annotations

from typing import Any

from phalanx.dialects.frame.dialect import Answer, Object, PodSet, Stage, Told
from phalanx.dialects.volcano.answers import pod_group_status, queue_status, statuses
from phalanx.dialects.volcano.kinds import QUEUES
from phalanx.model.reason import Reason, ReasonCode

NOW = "2026-01-01T00:00:00Z"
GROUP: Object = {"metadata": {"name": "g"}, "spec": {"minMember": 2}}
NO_ROOM = Reason(code=ReasonCode.NO_ROOM, text="placed 1 of 2")


def pod(phase: str = "Pending", node: str = "", cpu: str = "1") -> Object:
    spec: Object = {"containers": [{"resources": {"requests": {"cpu": cpu}}}]} | ({"nodeName": node} if node else {})
    return {"kind": "Pod", "metadata": {}, "spec": spec, "status": {"phase": phase}}


def told(*pods: Object, **more: Any) -> Told:
    usual: dict[str, Any] = {"id": "a/g", "namespace": "a", "kind": "PodGroup", "options": {}, "queue": "q"}
    return Told(**{**usual, "priority": 0, "stage": Stage.WAITING, "pod_sets": (), **more}, owners=pods)


def phase(*pods: Object, **more: Any) -> str:
    return str(pod_group_status(GROUP, told(*pods, **more), NOW)["phase"])


def test_phases() -> None:
    assert phase(pod(), pod()) == "Pending"
    assert phase(pod(), pod(), stage=Stage.STARTING) == "Inqueue"
    assert phase(pod("Running", "n"), pod(node="n")) == "Running"
    assert pod_group_status(GROUP, None, NOW) == {"phase": "Pending"}


def test_completed_counts_failed_pods() -> None:
    assert phase(pod("Failed", "n"), pod("Succeeded", "n")) == "Completed"
    assert phase(pod("Failed", "n")) == "Pending"  # fewer than its minimum
    status = pod_group_status(GROUP, told(pod("Failed", "n"), pod("Succeeded", "n")), NOW)
    assert (status["failed"], status["succeeded"], "running" in status) == (1, 1, False)


def test_unknown_means_running_and_unschedulable() -> None:
    assert phase(pod("Running", "n"), pod(), reason=NO_ROOM) == "Unknown"
    assert phase(pod("Running", "n"), pod()) == phase(pod(), pod(), reason=NO_ROOM) == "Pending"


def test_a_condition_keeps_its_time_while_it_says_the_same() -> None:
    first = pod_group_status(GROUP, told(pod(), pod(), reason=NO_ROOM), NOW)
    assert first["conditions"][0] == {
        "type": "Unschedulable",
        "status": "True",
        "reason": "NotEnoughResources",
        "message": "2/2 tasks in gang unschedulable: NoRoom: placed 1 of 2",
        "lastTransitionTime": NOW,
    }
    group = {**GROUP, "status": first}
    assert pod_group_status(group, told(pod(), pod(), reason=NO_ROOM), "2027-01-01T00:00:00Z") == first
    both = pod_group_status(group, told(pod("Running", "n"), pod("Running", "n")), NOW)["conditions"]
    assert [(one["type"], one["reason"]) for one in both] == [
        ("Unschedulable", "NotEnoughResources"),  # stays, as in Volcano; the newest counts
        ("Scheduled", "tasks in gang are ready to be scheduled"),
    ]


def test_a_queue_has_allocated_what_its_gangs_were_given_and_those_below() -> None:
    sets = (PodSet(name="main", count=3, minimum=2, request=(("cpu", 1500),), template={}, placed=2),)
    everyone = [
        told(pod("Running", "n"), pod("Running", "n"), pod(), stage=Stage.RUNNING, pod_sets=sets),
        told({"kind": "Job", "metadata": {}}, stage=Stage.STARTING, pod_sets=sets),
        told(pod(), pod(), stage=Stage.WAITING, pod_sets=sets),
        told(pod("Succeeded", "n"), stage=Stage.FINISHED, pod_sets=sets),
    ]
    queues = {name: {"metadata": {"name": name}} for name in ("q", "lab", "other")}
    found: dict[str, Answer] = {
        each.key: each for each in statuses({"q": "lab", "lab": "", "other": ""}, everyone, {QUEUES: queues}, NOW)
    }
    used = {"state": "Open", "allocated": {"cpu": "6", "pods": "4"}}
    assert (found["q"].status, found["lab"].status) == (used, used)
    assert found["other"].status == {"state": "Open", "allocated": {}}


def test_counts_of_queues_are_no_longer_written_and_its_state_is_kept() -> None:
    old = {"state": "Closing", "inqueue": 0, "running": 2, "allocated": {"memory": "1Gi"}, "reservation": {}}
    assert queue_status({"status": old}, {"cpu": 6000, "pods": 6}) == {
        "state": "Closing",
        "reservation": {},
        "allocated": {"memory": "0", "cpu": "6", "pods": "6"},
    }
