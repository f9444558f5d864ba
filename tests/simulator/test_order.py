"""The order of events at equal times, and the events that each cycle gets."""

from __future__ import annotations

from dataclasses import replace

from phalanx import loop
from phalanx.model.event import Event, Finished, Started, Submitted
from phalanx.simulator.cluster.arrivals import estimator
from phalanx.simulator.cluster.world import SimulatedWorld
from phalanx.simulator.run.setup import built_in
from phalanx.simulator.schedule import Fate
from phalanx.simulator.workload import machine
from phalanx.state.cluster import Cluster
from tests.simulator.builders import ends, played, starts, task


def passes(*tasks, size=10):
    """Return (time, events) of every scheduling cycle after the first."""
    setup = built_in("greedy")
    fates = [Fate(index, each) for index, each in enumerate(tasks)]
    world, cluster, found = (
        SimulatedWorld(fates, [machine(size)], setup.queues, estimator=estimator("user")),
        Cluster(),
        [],
    )
    for events in world.happenings():
        found.append((world.now_s, [said(event) for event in events]))
        loop.step(cluster, events, setup.policy, world.now_s, world)
    return found[1:]


def said(event: Event) -> str:
    match event:
        case Submitted(job):
            return f"submitted {job.id}"
        case Started(job, _) | Finished(job):
            return f"{type(event).__name__.lower()} {job}"
    return type(event).__name__


def test_each_submission_is_a_pass_of_its_own() -> None:
    assert passes(task("a", 5, 10), task("b", 5, 10)) == [
        (5, ["submitted a"]),
        (5, ["started a", "submitted b"]),
        (15, ["started b", "finished a"]),
        (15, ["finished b"]),
    ]


def test_submissions_precede_ends() -> None:
    assert passes(task("a", 0, 10), task("b", 10, 5), task("c", 10, 5))[1:4] == [
        (10, ["started a", "submitted b"]),
        (10, ["started b", "submitted c"]),
        (10, ["started c", "finished a"]),
    ]


def test_an_end_at_the_limit_is_known_with_the_first_thing_at_that_instant() -> None:
    assert passes(task("a", 0, 10, limit_s=10), task("b", 10, 5))[1] == (10, ["started a", "finished a", "submitted b"])


def test_an_end_at_the_limit_at_which_nothing_else_happens_is_a_pass() -> None:
    assert passes(task("a", 0, 10, limit_s=10), task("b", 11, 5))[1] == (10, ["started a", "finished a"])


def test_at_equal_times_the_order_of_the_trace_counts() -> None:
    tasks = [task("first", 0, 10, 10), *(task(name, 5, 10, 10) for name in ("9", "14", "a", "10"))]
    assert starts(played(*tasks, policy="easy")) == {"first": 0, "9": 10, "14": 20, "a": 30, "10": 40}


def test_an_end_at_the_limit_does_not_wait_for_an_end_that_comes_after_it() -> None:
    """Both end at 10, `a` at its limit; `b`, which started later, has its own turn."""
    first, later = task("a", 0, 10, limit_s=10), task("b", 1, 9, limit_s=60)
    assert passes(first, later)[1:] == [
        (1, ["started a", "submitted b"]),
        (10, ["started b", "finished a"]),
        (10, ["finished b"]),
    ]


def test_an_end_at_the_limit_is_known_with_an_end_that_comes_before_it() -> None:
    first, later = task("a", 0, 10, limit_s=60), task("b", 1, 9, limit_s=9)
    assert passes(first, later)[1:] == [
        (1, ["started a", "submitted b"]),
        (10, ["started b", "finished b", "finished a"]),
    ]


def test_a_job_runs_until_its_end_or_its_limit_whichever_is_first() -> None:
    schedule = played(task("short", 0, 10, limit_s=20), task("long", 0, 30, limit_s=20), task("free", 0, 40))
    assert starts(schedule) == {"short": 0, "long": 0, "free": 0}
    assert ends(schedule) == {"short": 10, "long": 20, "free": 40}
    assert [fate.outcome for fate in schedule.fates] == ["succeeded", "failed", "succeeded"]


def test_a_schedule_is_hashed_as_it_is_documented() -> None:
    schedule = played(task("a", 0, 10.5), task("never", 1, 5, 11))
    assert schedule.fates[1].reason.startswith("a pod asks 11 cpu")
    # sha256 of "a 0 10500000\nnever - -\n"
    assert schedule.sha256() == "ecf6ce55cbb76aaeecc882851fb470703856c8dab088800e9fdf33525e6f4706"


def test_who_follows_a_job_is_submitted_when_its_user_has_thought() -> None:
    """Earlier or later than in the log: b's user waits for a, and c's (who thinks for an unknown time) for both."""
    b = replace(task("b", 500, 10, 10), follows="a", think_s=5.0)
    c, d = (replace(task(name, at_s, 10, 1), follows="b") for name, at_s in (("c", 20), ("d", 600)))
    schedule = played(task("a", 0, 100, 10), b, c, d)
    assert starts(schedule) == {"a": 0, "b": 105, "c": 115, "d": 600}
    assert [fate.task.job.submitted_s for fate in schedule.fates] == [0, 105, 115, 600]
