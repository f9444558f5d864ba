"""`cli/cluster/jobs/standing.py`: how far a job is, from its objects alone."""

from __future__ import annotations

from phalanx.cli.cluster.jobs.finding import Member
from phalanx.cli.cluster.jobs.standing import standing
from phalanx.client.kind import JOBS
from tests.cli.test_job_reading import batch_job
from tests.cli.test_stuck import waiting_pod


def test_wait_says_why_a_job_is_stuck_while_its_pod_exists() -> None:
    job = batch_job("web", 1, "1")
    job["spec"]["suspend"] = False
    job["status"] = {"active": 1}
    members, pod = [Member(kind=JOBS, obj=job)], waiting_pod("ErrImagePull", "no such image")
    now = standing(members, [pod], [pod])
    assert (now.state, now.why, now.over) == ("stuck", "pod web-0, container main: ErrImagePull: no such image", False)
    assert standing(members, [pod]).state == "running"


def test_an_object_that_cannot_be_read_counts_as_queued() -> None:
    for status in ("text", {"conditions": 5}, {"conditions": [5]}, {"applicationState": "text"}):
        assert standing([Member(kind=JOBS, obj={**batch_job("odd", 1, "1"), "status": status})], ()).state == "queued"
