"""The work of running jobs: how fast a job works, when it will end, and how much of its work is saved or lost when pods
stop."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from math import inf
from typing import Any

from phalanx.model.event import Event
from phalanx.model.job import Outcome, Phase
from phalanx.simulator.cluster.agenda import Agenda, AgendaKind
from phalanx.simulator.cluster.arrivals import Estimator
from phalanx.simulator.cluster.listing import UnfinishedJob
from phalanx.simulator.schedule import Stint


class JobWork:
    """The work of all jobs. `checkpoint_s`: the interval at which jobs save their work; None if jobs never save their
    work. `tell`: a function that takes an event about a job, and returns the events that reach the scheduler at once.
    `over`: a function that ends a job. `stints`: the spans of time in which a job held the same pods, as recorded so
    far."""

    def __init__(
        self,
        agenda: Agenda[Any],
        estimator: Estimator,
        checkpoint_s: float | None,
        tell: Callable[[str, Event], Sequence[Event]],
        over: Callable[[UnfinishedJob, Outcome], Sequence[Event]],
    ) -> None:
        self.stints: list[Stint] = []
        self._agenda, self._estimator, self._checkpoint_s = agenda, estimator, checkpoint_s
        self._tell, self._over = tell, over

    def go_on(self, live: UnfinishedJob) -> None:
        """Compute how fast the job works with its present pods and when it will end, and plan this end."""
        live.plan += 1
        live.rate, live.since_s = live.pace(), self._agenda.now_s
        end_s = inf if live.rate <= 0 else live.since_s + (live.fate.work_s - live.worked_s) / live.rate
        limit_s, told_s = live.stop_s(), live.limit_s
        if limit_s is not None and live.began_s + limit_s < end_s:
            end_s = live.began_s + limit_s
        live.ends_s = end_s
        if end_s < inf:
            foreseen = told_s is not None and end_s == live.began_s + told_s
            kind = AgendaKind.FORESEEN if foreseen else AgendaKind.END
            live.ticket = self._agenda.put(end_s, kind, partial(self._end, live, live.plan))

    def record(self, live: UnfinishedJob) -> None:
        """Record the work that the job has done so far. The caller must do this before it changes the job's pods or
        rate."""
        if live.phase is Phase.QUEUED:
            return
        now_s = self._agenda.now_s
        live.worked_s += (now_s - live.since_s) * live.rate
        if now_s > live.since_s and live.placed:
            self._note_stint(live)
        live.since_s = now_s

    def lose(self, live: UnfinishedJob) -> None:
        """Subtract the work that the job has not saved, because its pods stop."""
        worked_s = live.worked_s + (self._agenda.now_s - live.since_s) * live.rate
        kept_s = 0.0 if not self._checkpoint_s else worked_s // self._checkpoint_s * self._checkpoint_s
        kept_s = max(kept_s, live.kept_s)
        live.fate.lost_s += worked_s - kept_s
        self._note_stint(live)
        live.worked_s = live.kept_s = kept_s

    def save(self, live: UnfinishedJob) -> None:
        """Mark the job's work as saved, except for the seconds that saving and restarting cost (`Task.restart_s`)."""
        done_s = (self._agenda.now_s - live.since_s) * live.rate - live.fate.task.restart_s
        live.kept_s = live.worked_s + max(0.0, done_s)

    def finish(self, live: UnfinishedJob) -> None:
        """Record the last stint of a job that ends now, and pass its run time to the estimator."""
        if live.placed:
            self._note_stint(live)
        self._estimator.ended(live.fate.task, live.fate.ran_s, self._agenda.now_s)

    def expect_outliving(self, live: UnfinishedJob) -> None:
        """Schedule a new estimate for the time at which the run time of the job reaches its present estimate."""
        told_s = live.job.limit_s
        if told_s is not None and self._estimator.outlived(live.fate.task, live.corrections) is not None:
            at_s = live.began_s + told_s
            self._agenda.put(at_s, AgendaKind.OUTLIVED, partial(self._outlived, live, live.number))

    def _outlived(self, live: UnfinishedJob, number: int) -> Sequence[Event]:
        if live.number != number or live.ends_s <= self._agenda.now_s:
            return ()
        longer_s = self._estimator.outlived(live.fate.task, live.corrections)
        live.corrections += 1
        if longer_s is None or longer_s == live.job.limit_s:
            return ()
        live.expect(longer_s)
        self.expect_outliving(live)
        if live.ends_s == live.began_s + longer_s:  # the job ends exactly at its new estimate (a *foreseen* end)
            live.plan += 1
            self._agenda.put(live.ends_s, AgendaKind.FORESEEN, partial(self._end, live, live.plan), live.ticket)
        return self._tell(live.job.id, live.adoption())

    def _end(self, live: UnfinishedJob, plan: int) -> Sequence[Event]:
        if live.plan != plan:
            return ()  # the pods of the job have changed since this end was planned, so the end is outdated
        fate, now_s = live.fate, self._agenda.now_s
        done = live.rate > 0 and now_s >= live.since_s + (fate.work_s - live.worked_s) / live.rate
        fate.ran_s = fate.work_s if done else live.worked_s + (now_s - live.since_s) * live.rate
        return self._over(live, Outcome.SUCCEEDED if done else Outcome.FAILED)

    def _note_stint(self, live: UnfinishedJob) -> None:
        self.stints.append(Stint(live.fate.index, live.since_s, self._agenda.now_s, live.placed, live.rate > 0))
