"""`kube/gang/spec/blocked.py`: what is missing or held keeps a gang waiting, and its reason says what to do."""

from __future__ import annotations

from phalanx.kube.gang.spec.gang_spec import GangDefaults
from tests.kube import double
from tests.kube.test_gang_spec import declared, why


def test_a_missing_member_is_waited_for() -> None:
    assert why(declared(double.job("ps", 1, job="t", job_roles="2"))) == (
        "WaitingForMembers: waiting for members: 1 of 2 members exist"
    )


def test_too_many_members_contradict_the_declaration() -> None:
    said = {"job": "t", "job_roles": "1"}
    assert "of the gang default/g is 1, but it has 2 members (a, b)" in why(
        declared(double.job("a", 1, **said), double.job("b", 1, **said))
    )


def test_a_gang_of_jobs_must_say_its_size() -> None:
    assert why(declared(double.job("ps", 1, job="t"))).startswith(
        "Invalid: no member of the gang default/g sets how many"
    )


def test_bare_pods_wait_for_their_minimum() -> None:
    assert why(declared(*(double.pod(f"p{i}", job="t", min_available="3") for i in range(2)))) == (
        "WaitingForMembers: waiting for members: 2 of 3 pods exist"
    )


def test_a_running_job_of_another_scheduler_is_told_how_to_be_queued() -> None:
    manifest = double.job("j", 1, scheduler="default-scheduler")
    manifest["spec"]["suspend"] = False
    text = why(declared(manifest))
    assert text.startswith("Invalid: the pods of Job j name the scheduler 'default-scheduler', and the Job runs")
    assert "suspend: true" in text


def test_a_suspended_job_of_another_scheduler_is_queued() -> None:
    assert why(declared(double.job("j", 1, scheduler="default-scheduler"))) == ""


def test_pod_by_pod_nobody_waits_for_members() -> None:
    defaults = GangDefaults(largest=dict, gang=lambda queue: False)
    job = declared(double.pod("p", job="t", min_available="3", min_resources="cpu=3"), defaults=defaults)
    assert (job.blocked, [role.count for role in job.roles]) == (None, [1])


def test_an_unbound_claim_fails_closed() -> None:
    manifest = double.job("j", 1)
    manifest["spec"]["template"]["spec"]["volumes"] = [{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}]
    assert why(declared(manifest)).startswith("Unsupported: it has volume claims")


def test_a_job_that_is_being_moved_is_held() -> None:
    manifest = double.job("j", 1)
    manifest["metadata"]["annotations"] = {"phalanx.dev/moving": "a-cluster"}
    assert why(declared(manifest)) == (
        "Held: j is being moved to another cluster: `phalanx move` can continue or undo the move"
    )
