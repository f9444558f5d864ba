"""Training jobs as Jobs: writes to the Jobs are read back, and the docs list the fields."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from phalanx.dialects.job_kinds.form import patched
from phalanx.dialects.job_kinds.replica_types import PYTORCH_JOB, TABLE
from phalanx.kube.read.workload.adapter import JobAdapter, WorkloadChange, merge_changes
from tests.dialects.kueue.test_fields_tables import row

PAGE = Path(__file__).parents[3] / "docs" / "dialects" / "kubeflow.md"
WORDS = "phalanx.dev/"
Object = dict[str, Any]
view, roles = PYTORCH_JOB.view, PYTORCH_JOB.roles


def replicas(count: int | None, **pod: Any) -> Object:
    found: Object = {"template": {"metadata": {"labels": {"app": "a"}}, "spec": {"containers": [], **pod}}}
    return found if count is None else {"replicas": count, **found}


def training(master: Object | None = None, worker: Object | None = None, **policy: Any) -> Object:
    specs = {name: one for name, one in (("Worker", worker), ("Master", master)) if one is not None}
    meta = {"name": "t", "namespace": "default", "uid": "u", "resourceVersion": "7", "labels": {f"{WORDS}queue": "lab"}}
    return {"metadata": meta, "spec": {"pytorchReplicaSpecs": specs, "runPolicy": policy}}


def test_each_replica_type_is_a_job_of_its_own() -> None:
    job = training(replicas(None), replicas(3), suspend=True, activeDeadlineSeconds=60)
    assert roles(job) == ["Master", "Worker"]
    worker = view(job, "Worker")
    assert worker["metadata"]["uid"] == "u/worker"
    spec = worker["spec"]
    assert (spec["suspend"], spec["parallelism"], spec["completions"], spec["activeDeadlineSeconds"]) == (
        True,
        3,
        3,
        60,
    )
    assert view(job, "Master")["spec"]["parallelism"] == 1
    assert worker["metadata"]["labels"] == {f"{WORDS}queue": "lab"}
    assert worker["metadata"]["annotations"] == {
        f"{WORDS}job-roles": "2",
        f"{WORDS}role": "worker",
        f"{WORDS}size": "fixed-at-start",
    }
    assert PYTORCH_JOB.role_of(spec["template"]["metadata"]["labels"]) == "worker"


def test_types_without_pods_are_no_roles() -> None:
    assert roles(training(replicas(1), replicas(0))) == ["Master"]


@pytest.mark.parametrize(
    ("least", "said"), [(None, [None, None]), (4, [None, "3"]), (1, [None, "1"]), (9, [None, None])]
)
def test_its_least_is_given_to_its_types_in_turn(least: int | None, said: list[str | None]) -> None:
    job = training(replicas(1), replicas(5), schedulingPolicy={"minAvailable": least})
    words = [view(job, role)["metadata"]["annotations"] for role in ("Master", "Worker")]
    assert [one.get(f"{WORDS}min-available") for one in words] == said


def test_its_scheduling_policy_counts_where_nothing_else_is_said() -> None:
    policy = {"queue": "theirs", "priorityClass": "high"}
    job = training(replicas(1, priorityClassName="low"), replicas(1), schedulingPolicy=policy)
    assert view(job, "Master")["metadata"]["labels"][f"{WORDS}queue"] == "lab"
    classes = [view(job, role)["spec"]["template"]["spec"]["priorityClassName"] for role in ("Master", "Worker")]
    assert classes == ["low", "high"]
    del job["metadata"]["labels"]
    assert view(job, "Master")["metadata"]["labels"][f"{WORDS}queue"] == "theirs"


@pytest.mark.parametrize(("theirs", "ours"), [("Succeeded", ["Complete"]), ("Failed", ["Failed"]), ("Running", [])])
def test_how_it_ended(theirs: str, ours: list[str]) -> None:
    job = training(replicas(1), replicas(2))
    conditions = [{"type": "Created", "status": "True"}, {"type": theirs, "status": "True"}]
    job["status"] = {"conditions": conditions, "replicaStatuses": {"Worker": {"succeeded": 1}}}
    status = view(job, "Worker")["status"]
    assert ([one["type"] for one in status["conditions"]], status["succeeded"]) == (ours, 1)


def test_what_is_written_to_a_type_is_read_back_from_it_alone() -> None:
    job = training(replicas(1), replicas(4), suspend=True)
    template = {"spec": {"nodeSelector": {"pool": "spot"}}}
    words = {f"{WORDS}parallelism": "2 of 4", f"{WORDS}admitted": "{}"}
    of_worker, of_master = (JobAdapter(PYTORCH_JOB.kind, role) for role in ("Worker", "Master"))
    changes = [
        WorkloadChange(of_worker, {"suspend": False, "parallelism": 2, "template": template}, words),
        WorkloadChange(of_master, {"suspend": False, "activeDeadlineSeconds": 9}, {f"{WORDS}admitted": "{}"}),
    ]
    spec, said = merge_changes(job, changes)
    now = patched(job, {"spec": spec, "metadata": {"annotations": said}})
    master, worker = view(now, "Master"), view(now, "Worker")
    assert (worker["spec"]["suspend"], worker["spec"]["parallelism"]) == (False, 2)
    assert worker["spec"]["template"]["spec"]["nodeSelector"] == {"pool": "spot"}
    assert worker["metadata"]["annotations"][f"{WORDS}parallelism"] == "2 of 4"
    assert (master["spec"]["parallelism"], master["spec"]["activeDeadlineSeconds"]) == (1, 9)
    assert "nodeSelector" not in master["spec"]["template"]["spec"]
    assert f"{WORDS}parallelism" not in master["metadata"]["annotations"]
    assert master["metadata"]["annotations"][f"{WORDS}admitted"] == "{}"


def test_another_manager_is_seen() -> None:
    assert view(training(replicas(1), managedBy="kueue.x-k8s.io/multikueue"), "Master")["spec"]["managedBy"]
    assert not view(training(replicas(1), managedBy="kubeflow.org/training-operator"), "Master")["spec"]["managedBy"]


def test_the_page_shows_the_table() -> None:
    page = PAGE.read_text()
    lines = ["| field | becomes | how |", "|---|---|---|", *(row(f"spec.{path}", use) for path, use in TABLE.items())]
    before, _, after = page.partition("## Fields\n\n")
    now = f"{before}## Fields\n\n" + "\n".join(lines) + "\n" + after.partition("\n\n")[1] + after.partition("\n\n")[2]
    if os.environ.get("PHALANX_REWRITE"):
        PAGE.write_text(now)
    assert page == now, f"the table has changed: PHALANX_REWRITE=1 pytest {Path(__file__).name}"


@pytest.mark.parametrize("obj", [{}, {"spec": None}, {"spec": {}}, {"spec": {"pytorchReplicaSpecs": None}}], ids=str)
def test_a_job_without_a_spec_has_no_roles(obj: Object) -> None:
    """A foreign definition may accept such a job."""
    assert roles({"metadata": {"name": "t"}, **obj}) == []
