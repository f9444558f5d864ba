"""`cli/cluster/jobs/attending.py`: follow a Job from its submission to its end."""

from __future__ import annotations

from phalanx.cli.cluster.jobs import attending
from tests.cli.test_job_reading import batch_job, started_pod


def test_a_program_that_was_never_started_is_told_beside_its_exit_code() -> None:
    ended = {"terminated": {"exitCode": 128, "reason": "StartError", "message": "no such program"}}
    job = batch_job("web", 1, "1")
    watch = attending._Watch(job=job, say=print, prefixed=False)
    assert attending._outcome("failed", watch, [started_pod(job, "n1", ended)]).why == (
        "exit code 128; StartError: no such program"
    )
