"""The content of a copy: the time when it was made, and the final status of its job."""

from __future__ import annotations

import pytest

from phalanx.client.kind import JOBS
from phalanx.clusters.copies import content
from phalanx.clusters.copies.sendable import SENDABLE
from phalanx.kube.read.records import StartRecord
from tests.clusters.plays import OF_KIND

START = StartRecord(attempt=2, queue="q", count=2, priority=0, at_s=1_700_000_000.25)


@pytest.mark.parametrize(
    ("annotations", "made_s"),
    [({content.MADE: "2023-11-14T22:15:00Z"}, 1_700_000_100.0), ({content.MADE: "soon"}, START.at_s), ({}, START.at_s)],
)
def test_a_copy_says_when_it_was_made_and_else_the_start_counts(annotations: dict[str, str], made_s: float) -> None:
    assert content.made_s({"metadata": {"annotations": annotations}}, START) == made_s


def test_the_final_status_is_written_once_also_of_a_copy_whose_start_was_not_seen() -> None:
    jobs, sendable = OF_KIND[JOBS], SENDABLE[JOBS]
    job = {**jobs.obj(managed=True), "status": {}}
    copied = jobs.ended(jobs.begun(job))
    patch = content.status_to_write(sendable, job, copied)
    assert patch is not None
    assert patch["succeeded"] == 2
    assert content.status_to_write(sendable, {**job, "status": copied["status"]}, copied) is None
    assert content.status_to_write(sendable, job, job) is None, "a copy that waits says nothing"


def test_starts_of_one_job_differ() -> None:
    again = StartRecord(attempt=3, queue="q", count=2, priority=0, at_s=START.at_s)
    assert content.start_of(START) == "2-1700000000250" != content.start_of(again)
