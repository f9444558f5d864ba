"""Point 4 of the protocol: a gang declares its size; what contradicts itself waits with what to do about it."""

from __future__ import annotations

from typing import Any

from phalanx.kube.gang.spec.gang_spec import GangDefaults, GangMembers, gang_spec
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


def test_a_missing_member_is_waited_for() -> None:
    assert why(declared(double.job("ps", 1, job="t", job_roles="2"))) == (
        "WaitingForMembers: waiting for members: 1 of 2 members exist"
    )


def test_too_many_members_contradict_the_declaration() -> None:
    said = {"job": "t", "job_roles": "1"}
    assert "says phalanx.dev/job-roles 1 but has 2 members (a, b)" in why(
        declared(double.job("a", 1, **said), double.job("b", 1, **said))
    )


def test_a_gang_of_jobs_must_say_its_size() -> None:
    assert why(declared(double.job("ps", 1, job="t"))).startswith(
        "Invalid: no member of the gang default/g says how many"
    )


def test_bare_pods_wait_for_their_minimum() -> None:
    assert why(declared(*(double.pod(f"p{i}", job="t", min_available="3") for i in range(2)))) == (
        "WaitingForMembers: waiting for members: 2 of 3 pods exist"
    )


def test_more_bare_pods_than_the_minimum_may_start_later() -> None:
    (role,) = declared(*(double.pod(f"p{i}", job="t", min_available="3") for i in range(5))).roles
    assert (role.count, role.minimum) == (5, 3)


def test_bare_pods_are_a_role_for_each_shape() -> None:
    said = {"job": "t", "min_available": "2"}
    job = declared(double.pod("ps", "4", role="ps", **said), double.pod("w", "1", **said))
    assert [(role.name, role.minimum) for role in job.roles] == [("ps", 1), ("pods-1", 1)]


def test_members_that_contradict_each_other() -> None:
    job = declared(double.pod("a", job="t", min_available="2"), double.pod("b", job="t", min_available="3"))
    assert "a says phalanx.dev/min-available 2, b says 3" in why(job)


def test_a_number_that_is_none() -> None:
    assert "p says phalanx.dev/min-available 'many'" in why(declared(double.pod("p", job="t", min_available="many")))


def test_more_available_than_there_ever_are() -> None:
    assert "says phalanx.dev/min-available 8 but parallelism 4" in why(declared(double.job("j", 4, min_available="8")))


def test_resources_that_cannot_be_read() -> None:
    assert "phalanx.dev/min-resources says 'three cores'" in why(
        declared(double.pod("p", job="t", min_resources="three cores"))
    )


def test_a_running_job_of_another_scheduler_is_told_how_to_be_queued() -> None:
    manifest = double.job("j", 1, scheduler="default-scheduler")
    manifest["spec"]["suspend"] = False
    text = why(declared(manifest))
    assert text.startswith("Invalid: the pods of Job j ask for the scheduler 'default-scheduler', and it runs without")
    assert "suspend: true" in text


def test_a_suspended_job_of_another_scheduler_is_queued() -> None:
    assert why(declared(double.job("j", 1, scheduler="default-scheduler"))) == ""


def test_a_lone_pod_is_a_job_of_its_own() -> None:
    job = declared(double.pod("p"))
    assert (job.queue, [role.minimum for role in job.roles], job.blocked) == ("default", [1], None)


def test_pod_by_pod_nobody_waits_for_members() -> None:
    defaults = GangDefaults(largest=dict, gang=lambda queue: False)
    job = declared(double.pod("p", job="t", min_available="3", min_resources="cpu=3"), defaults=defaults)
    assert (job.blocked, [role.count for role in job.roles]) == (None, [1])


def test_an_unbound_claim_fails_closed() -> None:
    manifest = double.job("j", 1)
    manifest["spec"]["template"]["spec"]["volumes"] = [{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}]
    assert why(declared(manifest)).startswith("Unsupported: it has volume claims")


def test_a_job_from_another_cluster_keeps_its_time_if_that_is_signed_for_it() -> None:
    key = RecordKey(secret=b"of this test", since_s=0.0)
    for uid, expected_s in (("u0", 100.0), ("another", 5000.0)):
        manifest = double.job("j", 1)
        notes = {"phalanx.dev/submitted": key.submission(100.0, uid).text()}
        manifest["metadata"] |= {"creationTimestamp": "1970-01-01T01:23:20Z", "annotations": notes}
        installed = Installation(record_key=key)
        defaults = GangDefaults(largest=lambda: {"cpu": 4000}, submitted_s=installed.submitted_s)
        assert declared(manifest, defaults=defaults).submitted_s == expected_s


def test_a_job_that_is_being_moved_is_held() -> None:
    manifest = double.job("j", 1)
    manifest["metadata"]["annotations"] = {"phalanx.dev/moving": "a-cluster"}
    assert why(declared(manifest)) == (
        "Held: j is being moved to another cluster: `phalanx move` goes on with that or takes it back"
    )
