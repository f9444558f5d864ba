"""The tracking finalizer of a Job's pods holds a pod only as long as its Job may still count it."""

from __future__ import annotations

import pytest

from tests.embedded.apiserver.process import ServerProcess

JOBS = "/apis/batch/v1/namespaces/default/jobs"
PODS = "/api/v1/namespaces/default/pods"
TRACKING = "batch.kubernetes.io/job-tracking"
POD = {"restartPolicy": "Never", "containers": [{"name": "main", "image": "host"}]}
MERGE = "application/merge-patch+json"


@pytest.mark.parametrize(
    ("case", "is_held"),
    [
        ("running", True),
        ("finished", False),
        ("gone", False),
        ("of another controller", True),
        ("finished, with another finalizer", True),
    ],
)
def test_a_pod_is_held_as_long_as_its_job_may_count_it(api_server: ServerProcess, case: str, is_held: bool) -> None:
    name = case.replace(" ", "-").replace(",", "")
    spec = {"suspend": True, "template": {"spec": POD}}
    if case == "of another controller":
        spec["managedBy"] = "example.com/another"
    uid = api_server.ask("POST", JOBS, {"metadata": {"name": name}, "spec": spec}).body["metadata"]["uid"]
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": name, "uid": uid, "controller": True}
    meta = {"name": name, "finalizers": [TRACKING], "ownerReferences": [owner]}
    others = ["example.com/other"] if "with another" in case else []
    meta["finalizers"] = [TRACKING, *others]
    assert api_server.ask("POST", PODS, {"metadata": meta, "spec": POD}).code == 201
    if case == "gone":
        assert api_server.ask("DELETE", f"{JOBS}/{name}?propagationPolicy=Background").code == 200
    elif case != "running":
        finish(api_server, name)
    api_server.ask("DELETE", f"{PODS}/{name}", {"gracePeriodSeconds": 0})
    left = api_server.ask("GET", f"{PODS}/{name}")
    assert (left.code == 200) == is_held
    if is_held:
        assert left.body["metadata"]["finalizers"] == (others or [TRACKING])
        api_server.ask("PATCH", f"{PODS}/{name}", {"metadata": {"finalizers": None}}, media=MERGE)


def finish(api_server: ServerProcess, name: str) -> None:
    at = "2026-11-30T00:00:00Z"
    kinds = ("SuccessCriteriaMet", "Complete")
    conditions = [
        {"type": kind, "status": "True", "reason": "Done", "message": "", "lastTransitionTime": at, "lastProbeTime": at}
        for kind in kinds
    ]
    status = {"startTime": at, "completionTime": at, "succeeded": 1, "conditions": conditions}
    answer = api_server.ask("PATCH", f"{JOBS}/{name}/status", {"status": status}, media=MERGE)
    assert answer.code == 200, answer.body
