"""What Volcano's users read of a gang: phase, counts and conditions of its PodGroup, what its Queues have allocated."""

from __future__ import annotations

from typing import Any

from phalanx.client.kind import NODES
from phalanx.dialects.frame.dialect import Answer, GangStage, GangView, Object, PodSet
from phalanx.dialects.volcano.answers import pod_group_status, queue_status, statuses
from phalanx.dialects.volcano.kinds import JOBS, POD_GROUPS, QUEUES
from phalanx.model.queue import Queue, Quota
from phalanx.model.reason import Reason, ReasonCode

NOTHING = {"cpu": "0", "memory": "0"}
NOW = "2026-01-01T00:00:00Z"
GROUP: Object = {"metadata": {"name": "g"}, "spec": {"minMember": 2}}
NO_ROOM = Reason(code=ReasonCode.NO_ROOM, text="placed 1 of 2")


def pod(phase: str = "Pending", node: str = "", cpu: str = "1") -> Object:
    spec: Object = {"containers": [{"resources": {"requests": {"cpu": cpu}}}]} | ({"nodeName": node} if node else {})
    return {"kind": "Pod", "metadata": {}, "spec": spec, "status": {"phase": phase}}


def told(*pods: Object, **more: Any) -> GangView:
    usual: dict[str, Any] = {"id": "a/g", "namespace": "a", "kind": "PodGroup", "options": {}, "queue": "q"}
    return GangView(**{**usual, "priority": 0, "stage": GangStage.WAITING, "pod_sets": (), **more}, owners=pods)


def tree(**parents: str) -> dict[str, Queue]:
    return {name: Queue(name=name, parent=parent) for name, parent in parents.items()}


def phase(*pods: Object, **more: Any) -> str:
    return str(pod_group_status(GROUP, told(*pods, **more), NOW)["phase"])


def test_phases() -> None:
    assert phase(pod(), pod()) == "Pending"
    assert phase(pod(), pod(), stage=GangStage.STARTING) == "Inqueue"
    assert phase(pod("Running", "n"), pod(node="n")) == "Running"
    assert pod_group_status(GROUP, None, NOW) == {"phase": "Pending"}


def test_completed_counts_failed_pods() -> None:
    assert phase(pod("Failed", "n"), pod("Succeeded", "n")) == "Completed"
    assert phase(pod("Failed", "n")) == "Pending"  # fewer than its minimum
    status = pod_group_status(GROUP, told(pod("Failed", "n"), pod("Succeeded", "n")), NOW)
    assert (status["failed"], status["succeeded"], "running" in status) == (1, 1, False)


def test_unknown_means_running_and_unschedulable() -> None:
    assert phase(pod("Running", "n"), pod(), reason=NO_ROOM) == "Unknown"
    assert phase(pod("Running", "n"), pod()) == phase(pod("Running", "n"), pod("Failed", "n")) == "Unknown"
    assert phase(pod(), pod(), reason=NO_ROOM) == "Pending"


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
        told(pod("Running", "n"), pod("Running", "n"), pod(), stage=GangStage.RUNNING, pod_sets=sets),
        told({"kind": "Job", "metadata": {}}, stage=GangStage.STARTING, pod_sets=sets),
        told(pod(), pod(), stage=GangStage.WAITING, pod_sets=sets),
        told(pod("Succeeded", "n"), stage=GangStage.FINISHED, pod_sets=sets),
    ]
    queues = {name: {"metadata": {"name": name}} for name in ("q", "lab", "other")}
    found: dict[str, Answer] = {
        each.key: each for each in statuses(tree(q="lab", lab="", other=""), everyone, {QUEUES: queues}, NOW)
    }
    used = {"state": "Open", "allocated": {"cpu": "6", "memory": "0", "pods": "4"}}
    assert (found["q"].status, found["lab"].status) == (used, used)
    assert found["other"].status == {"state": "Open", "allocated": NOTHING}
    assert found["root"].body is not None
    assert found["root"].status == used
    assert found["default"].status == {"state": "Open", "allocated": NOTHING}


def test_without_an_object_of_volcano_no_queue_is_made() -> None:
    assert not list(statuses({}, [], {}, NOW))


def test_a_group_that_its_queue_and_the_cluster_can_have_is_taken_up() -> None:
    """The first two groups are within the capability of their queue, the third is not; the fourth asks nothing."""
    nodes = {"n": {"status": {"allocatable": {"cpu": "4", "memory": "8Gi"}}}}

    def group(at: int, **spec: Any) -> Object:
        when = f"2026-01-01T00:00:0{at}Z"
        return {"metadata": {"creationTimestamp": when}, "spec": {"queue": "q", **spec}, "status": {"phase": "Pending"}}

    groups = {
        f"a/{at}": group(at, **({"minResources": {"cpu": cpu}} if cpu else {})) for at, cpu in enumerate((1, 2, 1, 0))
    }
    queue = Queue(name="q", quotas=(Quota(limit=(("cpu", 3000),)),))
    found = statuses({"q": queue}, [], {POD_GROUPS: groups, NODES: nodes}, NOW)
    taken = [each.key for each in found if each.kind is POD_GROUPS and (each.status or {})["phase"] == "Inqueue"]
    assert taken == ["a/0", "a/1", "a/3"]
    found = statuses({}, [], {POD_GROUPS: {"a/0": group(0, minResources={"cpu": 5})}, NODES: nodes}, NOW)
    assert [(each.status or {})["phase"] for each in found if each.kind is POD_GROUPS] == ["Pending"]


def test_counts_of_queues_are_no_longer_written_and_its_state_is_kept() -> None:
    old = {"state": "Closing", "inqueue": 0, "running": 2, "allocated": {"memory": "1Gi"}, "reservation": {}}
    assert queue_status({"status": old}, {"cpu": 6000, "pods": 6}) == {
        "state": "Closing",
        "reservation": {},
        "allocated": {"cpu": "6", "memory": "0", "pods": "6"},
    }


def test_the_pod_group_of_a_job_that_another_cluster_runs_is_not_taken_up() -> None:
    def owned(name: str) -> Object:
        owner = {"kind": "Job", "name": name, "uid": f"uid-{name}", "controller": True}
        return {"metadata": {"name": name, "namespace": "a", "ownerReferences": [owner]}, "spec": {"minMember": 1}}

    def job(name: str, **spec: Any) -> Object:
        return {"metadata": {"name": name, "namespace": "a", "uid": f"uid-{name}"}, "spec": spec}

    jobs = {"a/kept": job("kept"), "a/sent": job("sent", schedulerName="kueue.x-k8s.io/multikueue")}
    objects = {POD_GROUPS: {key: owned(one["metadata"]["name"]) for key, one in jobs.items()}, JOBS: jobs}
    found = [each for each in statuses({}, (), objects, NOW) if each.kind is POD_GROUPS]
    assert [each.key for each in found if (each.status or {})["phase"] == "Inqueue"] == ["a/kept"]
