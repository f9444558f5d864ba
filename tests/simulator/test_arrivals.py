"""Jobs arrive in the order of the trace, and followers after the job that they follow."""

from __future__ import annotations

from dataclasses import replace

from phalanx.simulator.cluster.agenda import Agenda, AgendaKind
from phalanx.simulator.cluster.arrivals import Arrivals, Estimator
from phalanx.simulator.schedule import Fate
from tests.simulator.builders import task

COUNTED = ("cpu", 1000)


def arrivals(*fates: Fate, agenda: Agenda | None = None, checkpoint_s: float | None = None) -> Arrivals:
    return Arrivals(
        *(fates, agenda or Agenda([]), Estimator()),
        checkpoint_s=checkpoint_s,
        rounds=None,
        formula=None,
        counted=COUNTED,
    )


def test_jobs_of_the_same_time_keep_the_order_of_the_trace() -> None:
    fates = [Fate(number, task(name, 0.0, 10.0)) for number, name in enumerate("zya")]
    found = arrivals(*fates, checkpoint_s=60.0)
    times_s = [found.job_of(fate).submitted_s for fate in fates]
    assert times_s == sorted(set(times_s)), "each is later than the one before"
    assert found.job_of(fates[0]).checkpoint_s == 60.0


def test_a_follower_arrives_after_the_think_time() -> None:
    agenda: Agenda = Agenda([])
    follower = Fate(1, replace(task("b", 0.0, 10.0), follows="a", think_s=5.0))
    found = arrivals(Fate(0, task("a", 0.0, 10.0)), follower, agenda=agenda)
    found.expect_followers("another")
    assert agenda.take() is None
    agenda.now_s = 100.0
    found.expect_followers("a")
    assert agenda.take() == (AgendaKind.SUBMISSION, follower)
    assert (agenda.now_s, follower.task.job.submitted_s) == (105.0, 105.0)
