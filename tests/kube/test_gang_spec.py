"""Point 4 of the protocol: a gang declares its size; what contradicts itself waits with what to do about it."""

from __future__ import annotations

from typing import Any

from phalanx.kube.gang.spec.gang_spec import GangDefaults, gang_spec
from phalanx.kube.gang.spec.members import GangMembers
from phalanx.kube.install.installation import Installation
from phalanx.kube.read.pod import read_pod
from phalanx.kube.read.records import RecordKey
from phalanx.kube.read.template.admission import AdmissionDefaults
from phalanx.kube.read.workload.adapter import job_owner
from phalanx.kube.read.workload.batch_job import read_job
from phalanx.model.job import Job
from tests.kube import double

AROUND = AdmissionDefaults()
DEFAULTS = GangDefaults(largest=lambda: {"cpu": 4000})


def declared(*objects: dict[str, Any], defaults: GangDefaults = DEFAULTS) -> Job:
    jobs, pods = [], []
    for number, obj in enumerate(objects):
        obj["metadata"] |= {"uid": f"u{number}", "resourceVersion": "1"}
        if "template" in obj["spec"]:
            jobs.append(read_job(obj, AROUND))
        else:
            pods.append(read_pod(obj, AROUND.shapes, owner=job_owner(obj["metadata"])))
    return gang_spec(GangMembers(id="default/g", jobs=jobs, pods=pods), defaults).job


def why(job: Job) -> str:
    return f"{job.blocked.code}: {job.blocked.text}" if job.blocked is not None else ""


def test_a_job_is_one_role_of_what_it_can_use_at_once() -> None:
    manifest = double.job("j", 4)
    manifest["spec"]["completions"] = 10
    manifest["status"] = {"succeeded": 7}
    (role,) = declared(manifest).roles
    assert (role.name, role.count, role.minimum) == ("j", 3, 3)


def test_a_work_queue_needs_no_new_pod_once_one_succeeded() -> None:
    manifest = double.job("j", 4)
    del manifest["spec"]["completions"]
    manifest["status"] = {"succeeded": 1}
    assert declared(manifest).roles == ()


def test_two_jobs_are_two_roles() -> None:
    said = {"job": "t", "job_roles": "2"}
    job = declared(double.job("ps", 1, "4", **said), double.job("worker", 3, **said))
    assert [(role.name, role.minimum) for role in job.roles] == [("ps", 1), ("worker", 3)]
    assert job.blocked is None


def test_more_bare_pods_than_the_minimum_may_start_later() -> None:
    (role,) = declared(*(double.pod(f"p{i}", job="t", min_available="3") for i in range(5))).roles
    assert (role.count, role.minimum) == (5, 3)


def test_bare_pods_are_a_role_for_each_shape() -> None:
    said = {"job": "t", "min_available": "2"}
    job = declared(double.pod("ps", "4", role="ps", **said), double.pod("w", "1", **said))
    assert [(role.name, role.minimum) for role in job.roles] == [("ps", 1), ("pods-1", 1)]


def test_more_available_than_there_ever_are() -> None:
    assert "sets phalanx.dev/min-available to 8, but its parallelism is only 4" in why(
        declared(double.job("j", 4, min_available="8"))
    )


def test_resources_that_cannot_be_read() -> None:
    assert "phalanx.dev/min-resources is 'three cores'" in why(
        declared(double.pod("p", job="t", min_resources="three cores"))
    )


def test_a_lone_pod_is_a_job_of_its_own() -> None:
    job = declared(double.pod("p"))
    assert (job.queue, [role.minimum for role in job.roles], job.blocked) == ("default", [1], None)


def test_a_job_from_another_cluster_keeps_its_time_if_that_is_signed_for_it() -> None:
    key = RecordKey(secret=b"of this test", since_s=0.0)
    for uid, expected_s in (("u0", 100.0), ("another", 5000.0)):
        manifest = double.job("j", 1)
        notes = {"phalanx.dev/submitted": key.submission(100.0, uid).text()}
        manifest["metadata"] |= {"creationTimestamp": "1970-01-01T01:23:20Z", "annotations": notes}
        installed = Installation(record_key=key)
        defaults = GangDefaults(largest=lambda: {"cpu": 4000}, submitted_s=installed.submitted_s)
        assert declared(manifest, defaults=defaults).submitted_s == expected_s
