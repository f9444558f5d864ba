"""`state/dependencies.py`: dependencies between jobs, slots of arrays, and the outcomes that are still needed."""

from __future__ import annotations

from dataclasses import replace

import pytest

from phalanx.model.job import Dependency, Job, Outcome
from phalanx.state import dependencies
from phalanx.state.dependencies import JobDependencies
from tests.core.builders import job, role


def task(name: str, at: float = 0.0) -> Job:
    return replace(job(name, role(cpu=1), at=at), user="ann", array="sweep", array_cap=2)


def test_a_job_is_found_by_the_jobs_that_it_waits_for_until_it_leaves() -> None:
    index, late = JobDependencies(), replace(job("late", role(cpu=1)), after=(Dependency(job="a"), Dependency(job="b")))
    index.enter(late)
    assert {name: list(found) for name, found in index.dependents.items()} == {"a": ["late"], "b": ["late"]}
    index.leave(late)
    assert not index.dependents


def test_members_of_an_array_and_of_a_singleton_are_in_the_order_of_their_submission() -> None:
    index = JobDependencies()
    for name, at in (("second", 2.0), ("first", 1.0), ("third", 3.0)):
        index.enter(replace(task(name, at), singleton="one"))
    ordered = [(1.0, "first"), (2.0, "second"), (3.0, "third")]
    assert index.arrays == {("ann", "sweep"): ordered}
    assert index.singletons == {("ann", "one"): ordered}
    index.leave(replace(task("second", 2.0), singleton="one"))
    assert index.arrays[("ann", "sweep")] == [ordered[0], ordered[2]]


def test_a_slot_of_an_array_is_held_until_it_is_given_back() -> None:
    index = JobDependencies()
    index.work(task("a"))
    index.work(job("alone", role(cpu=1)))
    assert index.contends(task("a"))
    assert not index.contends(task("b"))
    index.rest(task("a"))
    assert not index.contends(task("a"))
    assert not index.active, "jobs without an array hold no slot"


def test_outcomes_that_a_live_job_names_are_kept_and_of_others_the_latest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dependencies, "KEPT", 2)
    index = JobDependencies()
    index.enter(replace(job("late", role(cpu=1)), after=(Dependency(job="needed"),)))
    for name in ("needed", "old", "b", "c", "d"):
        index.ended(name, Outcome.SUCCEEDED)
    assert set(index.outcomes) == {"needed", "c", "d"}
    index.enter(job("c", role(cpu=1)))
    assert "c" not in index.outcomes, "a live job has no outcome"


def test_a_copy_changes_alone() -> None:
    index = JobDependencies()
    index.enter(task("a"))
    index.work(task("a"))
    copy = index.copy()
    copy.leave(task("a"))
    assert index.contends(task("a"))
    assert index.arrays
    assert not copy.arrays
