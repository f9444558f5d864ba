"""What the ledger learns of a job from its objects."""

from __future__ import annotations

from typing import Any

from phalanx.cli.cluster.accounting import Objects
from phalanx.client.informer import Change
from phalanx.client.kind import JOBS, PODS
from phalanx.dialects.enabled import DIALECTS


def volcano_pod(name: str, code: int) -> dict[str, Any]:
    owner = {
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "kind": "Job",
        "name": "claimant",
        "uid": "owner",
        "controller": True,
    }
    meta = {
        "name": name,
        "namespace": "default",
        "uid": name,
        "creationTimestamp": "2026-01-01T00:00:00Z",
        "annotations": {"scheduling.k8s.io/group-name": "claimant-d75b"},
        "ownerReferences": [owner],
    }
    ended = {"terminated": {"exitCode": code, "finishedAt": "2026-01-01T00:01:00Z"}}
    status = {"phase": "Failed" if code else "Succeeded", "containerStatuses": [{"name": "main", "state": ended}]}
    return {"kind": "Pod", "metadata": meta, "spec": {"schedulerName": "volcano", "containers": []}, "status": status}


def test_a_volcano_job_is_recorded_with_its_own_name_and_the_exit_code_of_its_pods() -> None:
    seen = Objects(lambda kind, meta, scheduler: DIALECTS["volcano"].options_of(kind, meta, scheduler))
    for name, code in (("claimant-main-0", 0), ("claimant-main-1", 3)):
        seen.on_pod(Change(kind=PODS, old=None, new=volcano_pod(name, code)))
    facts = seen.look("default/podgroup:claimant-d75b")
    assert facts is not None
    assert (facts.exit_code, facts.words) == (3, {"object": "Job.batch.volcano.sh/claimant"})


def test_a_pod_of_a_controller_that_is_no_job_of_ours_is_left_alone() -> None:
    seen = Objects()
    seen.on_pod(Change(kind=PODS, old=None, new=volcano_pod("claimant-main-0", 0)))
    assert seen.look("default/podgroup:claimant-d75b") is None
    assert seen.look("default/pod:claimant-main-0") is None


def test_a_task_is_recorded_with_the_name_of_its_array() -> None:
    seen = Objects()
    labels = {"phalanx.dev/queue": "default", "phalanx.dev/array": "sweep"}
    meta = {"name": "sweep-7", "namespace": "default", "uid": "u", "labels": labels}
    seen.on_owner(
        Change(kind=JOBS, old=None, new={"metadata": meta, "spec": {"template": {"spec": {"containers": []}}}})
    )
    facts = seen.look("default/sweep-7")
    assert facts is not None
    assert facts.words == {"task-of": "sweep"}
