"""`cli/views/job/explanation.py`: the row of a job, and a job that is not scheduled."""

from __future__ import annotations

from phalanx.cli.cluster.jobs.finding import FoundJob, Member
from phalanx.cli.views.job import reading
from phalanx.cli.views.job.explanation import invalid_field, not_scheduled, row_of, row_of_pods
from phalanx.cli.views.job.job_view import short_row
from phalanx.client.connection import Object
from phalanx.client.kind import JOBS, PODS, Kind
from phalanx.dialects.job_kinds.ray import RAY_JOB
from phalanx.ledger.entry import JobEntry
from tests.cli.test_job_reading import NOW_S, batch_job, foreign_pod, meta, node, queue, rows, snapshot

TRAIN_JOBS = Kind(group="trainer.kubeflow.org", version="v1alpha1", plural="trainjobs", name="TrainJob")


async def test_the_pods_of_a_volcano_job_are_shown_under_the_name_that_its_user_gave() -> None:
    owner = {
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "kind": "Job",
        "name": "claimant",
        "uid": "v",
        "controller": True,
    }
    words = {"phalanx.dev/queue": "default", "phalanx.dev/job": "podgroup:claimant-d75b"}
    pod = foreign_pod("claimant-main-0", "n1", "1")
    pod |= {"metadata": meta("claimant-main-0", annotations=words), "status": {"phase": "Pending"}}
    pod["spec"] = {"schedulerName": "phalanx", "containers": pod["spec"]["containers"]}
    seen = snapshot(node("n1"), queue("default"), pod)
    seen.objects[PODS]["default/claimant-main-0"]["metadata"]["ownerReferences"] = [owner]
    [view] = reading.views(seen)
    assert (view.id, view.name, view.kind) == ("default/podgroup:claimant-d75b", "claimant", "Job.batch.volcano.sh")
    [row] = rows(seen)
    assert short_row(row, NOW_S, with_namespace=True)[0] == "default/claimant"
    assert row_of(FoundJob(kind="vcjob", namespace="default", name="claimant"), [row]) == row
    assert row_of(FoundJob(kind="job", namespace="default", name="claimant"), [row]) is None


async def test_gang_named_by_labels_of_another_scheduler_is_found() -> None:
    pod = foreign_pod("g-0", "n1", "1")
    pod |= {"metadata": meta("g-0", annotations={"phalanx.dev/queue": "default", "phalanx.dev/job": "application"})}
    pod |= {"spec": {"schedulerName": "phalanx", "containers": pod["spec"]["containers"]}, "status": {}}
    seen = snapshot(node("n1"), queue("default"), pod)
    [row] = rows(seen)
    by_ledger = FoundJob(kind="gang", namespace="default", name="x", entry=JobEntry(uid="", job="default/application"))
    assert row_of(by_ledger, [row]) == row
    by_pod = FoundJob(kind="pod", namespace="default", name="g-0", members=(Member(kind=PODS, obj=pod),))
    pods = {gang.id: gang.objects.pods for gang in seen.gangs.values()}
    assert row_of_pods(by_pod, [row], pods) == row
    assert row_of_pods(by_pod, [row], {}) is None


def test_a_job_that_is_not_scheduled_says_what_its_operator_says() -> None:
    conditions = [
        {"type": "Failed", "message": "there is no runtime torch.", "lastTransitionTime": "2026-01-02T00:00:00Z"},
        {"type": "Created", "message": "it was created", "lastTransitionTime": "2026-01-01T00:00:00Z"},
        {"type": "Suspended"},
    ]
    labels = {"labels": {"phalanx.dev/queue": "default"}}
    obj = {"metadata": {**meta("tj"), **labels}, "status": {"conditions": conditions}}

    def found(obj: Object) -> FoundJob:
        return FoundJob(kind="trainjob", namespace="default", name="tj", members=(Member(kind=TRAIN_JOBS, obj=obj),))

    assert str(not_scheduled(found(obj))) == (
        "trainjob default/tj exists, but Phalanx does not schedule it. Its status says: there is no runtime torch."
    )
    bare = FoundJob(
        kind="trainjob",
        namespace="default",
        name="tj",
        members=(Member(kind=TRAIN_JOBS, obj={"metadata": meta("tj")}),),
    )
    assert str(not_scheduled(bare)).endswith("it has no label phalanx.dev/queue, so Phalanx ignores it.")


def test_a_job_with_a_field_of_a_wrong_type_says_which_field() -> None:
    spec = {"rayClusterSpec": {"workerGroupSpecs": [{"groupName": "w", "replicas": "many"}]}}
    member = Member(kind=RAY_JOB.kind, obj={"metadata": meta("r"), "spec": spec})
    found = FoundJob(kind="rayjob", namespace="default", name="r", members=(member,))
    assert str(not_scheduled(found)) == (
        "rayjob default/r is invalid, so Phalanx does not start it: spec.rayClusterSpec.workerGroupSpecs[0].replicas: "
        "'many' is not a whole number from 0 to 2147483647."
    )
    assert not invalid_field(FoundJob(kind="job", namespace="default", name="x"))


async def test_a_member_of_a_gang_is_explained_by_its_gang() -> None:
    member = batch_job("workers", 1, "1")
    member["metadata"]["labels"] |= {"phalanx.dev/job": "mnist", "phalanx.dev/job-roles": "2"}
    seen = snapshot(node("n1"), queue("default"), member)
    found = FoundJob(kind="job", namespace="default", name="workers", members=(Member(kind=JOBS, obj=member),))
    row = row_of(found, rows(seen))
    assert row is not None
    assert (row.id, row.state) == ("default/mnist", "queued")
