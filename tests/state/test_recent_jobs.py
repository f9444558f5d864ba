"""The time in which every submission is known."""

from __future__ import annotations

from dataclasses import replace

from phalanx.model.job import Job
from phalanx.state.run_times import FEWEST, KEPT_SUBMISSIONS, RecentJobs
from tests.core.builders import job, role


def at(submitted_s: float, name: str = "j") -> Job:
    return replace(job(f"{name}-{submitted_s:g}", role(cpu=1)), submitted_s=submitted_s)


def ended(*jobs: Job) -> RecentJobs:
    found = RecentJobs()
    for each in jobs:
        found.add(each)
    return found


def test_live_jobs_and_those_that_ended_are_known_in_their_order() -> None:
    recent = ended(*(at(float(2 * n)) for n in range(20, 0, -1)))
    window = recent.window([at(float(2 * n + 1)) for n in range(1, 20)], 50.0)
    assert window is not None
    assert (window.since_s, window.until_s) == (2.0, 50.0)
    assert [each.submitted_s for each in window.jobs] == [float(n) for n in range(3, 41)]


def test_before_the_latest_submission_that_is_forgotten_not_every_job_is_known() -> None:
    """A job of 5,000 ended first; of what was submitted before it others may have been forgotten, too."""
    recent = ended(at(5000.0), *(at(4000.0 + n) for n in range(KEPT_SUBMISSIONS)))
    assert len(recent) == KEPT_SUBMISSIONS
    assert recent.window([at(5000.0 + n, "live") for n in range(1, FEWEST)], 6000.0) is None
    window = recent.window([at(5000.0 + n, "live") for n in range(1, FEWEST + 1)], 6000.0)
    assert window is not None
    assert window.since_s == 5000.0
    assert len(window.jobs) == FEWEST


def test_a_job_whose_submission_is_not_known_is_left_out() -> None:
    recent = ended(at(0.0), *(at(1000.0 + n) for n in range(FEWEST + 1)))
    window = recent.window([], 2000.0)
    assert window is not None
    assert window.since_s == 1000.0


def test_a_job_that_is_told_twice_counts_once() -> None:
    recent = ended(*(at(float(n)) for n in range(1, 30)), at(20.0))
    window = recent.window([at(20.0)], 40.0)
    assert window is not None
    assert [each.submitted_s for each in window.jobs] == [float(n) for n in range(2, 30)]


def test_too_few_submissions_say_nothing() -> None:
    assert RecentJobs().window([at(float(n)) for n in range(1, 99)], 100.0) is None
    assert ended(*(at(float(n)) for n in range(1, FEWEST))).window([], 100.0) is None


def test_a_copy_remembers_for_itself() -> None:
    recent = ended(at(1.0))
    recent.copy().add(at(2.0))
    assert len(recent) == 1
