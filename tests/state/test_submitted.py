"""`state/queues/submitted.py`: of more submitted jobs than a limit allows, the first count."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from phalanx.model.job import Job
from phalanx.model.queue import Limits, Queue
from phalanx.state.queues.branch import Branch
from phalanx.state.queues.submitted import SubmitLimit, SubmittedJobs
from phalanx.state.queues.tree import QueueTree
from tests.core.builders import job, role


def branch(**limits: Limits) -> Branch:
    tree = QueueTree()
    tree.build({"up": Queue(name="up", **limits), "q": Queue(name="q", parent="up")}, {})
    return tree.branch("q")


def sent(name: str, at: float, user: str = "ann") -> Job:
    return replace(job(name, role(cpu=1), queue="q", at=at), user=user)


def test_the_first_jobs_are_admitted_in_whatever_order_they_are_reported() -> None:
    counted, queue = SubmittedJobs(), branch(total=Limits(submitted=2))
    jobs = {name: sent(name, at) for name, at in (("c", 3.0), ("a", 1.0), ("b", 2.0))}
    assert [list(counted.enter(queue, each)) for each in jobs.values()] == [[], [], ["c"]]
    gate = SubmitLimit("up", "queue", "", 2)
    assert [counted.kept_out(queue, each) for each in jobs.values()] == [gate, None, None]
    assert list(counted.leave(queue, jobs["a"])) == ["c"]
    assert counted.kept_out(queue, jobs["c"]) is None


def test_each_user_has_a_limit_of_its_own() -> None:
    counted, queue = SubmittedJobs(), branch(per_user=Limits(submitted=1, named=(("bob", Limits(submitted=0)),)))
    for each in (sent("a", 1.0), sent("b", 2.0), sent("c", 3.0, "eve")):
        list(counted.enter(queue, each))
    assert counted.kept_out(queue, sent("a", 1.0)) is None
    assert counted.kept_out(queue, sent("b", 2.0)) == SubmitLimit("up", "user", "ann", 1)
    assert counted.kept_out(queue, sent("c", 3.0, "eve")) is None


def test_without_a_limit_nothing_is_listed() -> None:
    counted = SubmittedJobs()
    assert list(counted.enter(branch(), sent("a", 1.0))) == []
    assert not counted.lists


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 7)), max_size=30), st.integers(0, 4))
def test_who_is_admitted_follows_from_the_jobs_that_are_there(steps: list[tuple[bool, int]], allowed: int) -> None:
    counted, queue, live = SubmittedJobs(), branch(total=Limits(submitted=allowed)), dict[int, Job]()
    for comes, number in steps:
        if comes and number not in live:
            live[number] = sent(f"j{number}", float(number % 3))
            list(counted.enter(queue, live[number]))
        elif not comes and number in live:
            list(counted.leave(queue, live.pop(number)))
        first = sorted(live.values(), key=lambda each: (each.submitted_s, each.id))[:allowed]
        admitted = [each for each in live.values() if counted.kept_out(queue, each) is None]
        assert {each.id for each in admitted} == {each.id for each in first}
