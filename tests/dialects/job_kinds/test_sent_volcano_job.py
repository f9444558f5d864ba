"""Volcano Jobs that another cluster runs, as one Job for each task."""

from __future__ import annotations

from typing import Any

import pytest

from phalanx.dialects.job_kinds.sent_volcano_job import SENT, VOLCANO_JOB, ended, is_sent


def job(scheduler: str = SENT, phase: str = "", labels: Any = None, notes: Any = None, **spec: Any) -> dict[str, Any]:
    tasks = [{"name": "a", "replicas": 2, "template": {"spec": {"x": 1}}}, {"replicas": 1}, {"name": "none"}]
    return {
        "metadata": {"name": "j", "namespace": "ns", "uid": "u", "labels": labels, "annotations": notes},
        "spec": {"schedulerName": scheduler, "tasks": tasks, **spec},
        "status": {"state": {"phase": phase}} if phase else {},
    }


def view(obj: dict[str, Any], role: str = "a") -> dict[str, Any]:
    return VOLCANO_JOB.view(obj, role)


def test_only_jobs_for_other_clusters_have_roles() -> None:
    assert VOLCANO_JOB.roles(job()) == ["a", "default1"]
    assert VOLCANO_JOB.roles(job("volcano")) == []
    assert [is_sent(job()), is_sent({})] == [True, False]


def test_a_job_waits_until_its_start_is_recorded() -> None:
    assert view(job())["spec"]["suspend"] is True
    assert view(job(notes={"phalanx.dev/admitted": "x"}))["spec"]["suspend"] is False


def test_the_queue_is_volcanos_unless_a_label_names_another() -> None:
    def queue(obj: dict[str, Any]) -> Any:
        return (view(obj)["metadata"].get("labels") or {}).get("phalanx.dev/queue")

    assert [queue(job()), queue(job(queue="q"))] == ["default", "q"]
    assert queue(job(labels={"kueue.x-k8s.io/queue-name": "l"}, queue="q")) is None


def test_a_task_has_its_own_pods_and_the_priority_of_the_job() -> None:
    template = view(job(priorityClassName="high"))["spec"]["template"]
    assert template["spec"] == {"priorityClassName": "high", "x": 1}
    assert view(job())["spec"]["template"]["spec"] == {"x": 1}


@pytest.mark.parametrize(
    ("phase", "end"),
    [
        ("", ""),
        ("Running", ""),
        ("Completed", "Complete"),
        ("Failed", "Failed"),
        ("Terminated", "Failed"),
        ("Aborted", "Failed"),
    ],
)
def test_ends(phase: str, end: str) -> None:
    assert ended(job(phase=phase)) == end
    conditions = view(job(phase=phase))["status"]["conditions"]
    assert [one["type"] for one in conditions] == ([end] if end else [])


def test_an_edit_is_of_one_task_and_leaves_the_object() -> None:
    spec = job()["spec"]
    edited = VOLCANO_JOB.edit(spec, "a", {"template": {"spec": {"y": 2}}})
    assert edited["tasks"][0]["template"]["spec"] == {"x": 1, "y": 2}
    assert edited["tasks"][1:] == spec["tasks"][1:]
    assert spec["tasks"][0]["template"]["spec"] == {"x": 1}
    assert VOLCANO_JOB.edit(spec, "a", {"suspend": False}) == spec
