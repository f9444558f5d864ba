"""A job's object as its user wrote it."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

from phalanx.cli.cluster.jobs.finding import Member
from phalanx.cli.submission.copying import copy_of
from phalanx.client.kind import JOBS, PODS
from phalanx.kube.read.labels import LIMITED, PARALLELISM, USER

LABEL = "batch.kubernetes.io/job-name"


def job(annotations: dict[str, str] | None = None, **spec: Any) -> dict[str, Any]:
    template = {"metadata": {"labels": {LABEL: "old", "app": "a"}, "creationTimestamp": None}, "spec": {"x": None}}
    meta = {"name": "old", "namespace": "ns", "uid": "u", "resourceVersion": "7", "labels": {"team": "t"}}
    return {
        "metadata": {**meta, "annotations": {USER: "ada", "note": "n", **(annotations or {})}},
        "spec": {"template": template, "selector": {"matchLabels": {LABEL: "old"}}, "suspend": False, **spec},
        "status": {"active": 1},
    }


def copied(obj: dict[str, Any]) -> dict[str, Any]:
    before = deepcopy(obj)
    found = copy_of(Member(kind=JOBS, obj=obj), "new")
    assert obj == before, "the object itself stays as it is"
    return found


def test_what_servers_and_controllers_wrote_is_left_out() -> None:
    found = copied(job())
    assert (found["apiVersion"], found["kind"], "status" in found) == ("batch/v1", "Job", False)
    assert found["metadata"] == {
        "name": "new",
        "namespace": "ns",
        "labels": {"team": "t"},
        "annotations": {"note": "n"},
    }
    assert "selector" not in found["spec"]
    assert found["spec"]["suspend"] is True
    assert found["spec"]["template"]["metadata"] == {"labels": {"app": "a"}}
    assert found["spec"]["template"]["spec"] == {}


def test_a_selector_of_the_user_stays() -> None:
    assert "selector" in copied(job(manualSelector=True))["spec"]


def test_what_a_start_changed_is_as_it_was() -> None:
    found = copied(job({PARALLELISM: "2 of 4", LIMITED: "50 of 100"}, parallelism=2, activeDeadlineSeconds=50))
    assert (found["spec"]["parallelism"], found["spec"]["activeDeadlineSeconds"]) == (4, 100)
    without = copied(job({LIMITED: "50 of none"}, activeDeadlineSeconds=50))
    assert "activeDeadlineSeconds" not in without["spec"]


def test_a_pod_of_ours_is_placed_anew_and_one_of_others_stays() -> None:
    for scheduler, kept in (("phalanx", False), ("default-scheduler", True)):
        obj = {"metadata": {"name": "p"}, "spec": {"schedulerName": scheduler, "nodeName": "n"}}
        found = copy_of(Member(kind=PODS, obj=obj), "new")
        assert ("nodeName" in found["spec"], found["metadata"]["name"]) == (kept, "new")
