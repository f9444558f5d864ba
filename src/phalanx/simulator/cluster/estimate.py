"""What the scheduler is told about run times, as against what is true.

- `user`: what the trace says the user asked for (no limit where the trace has none).
- `exact`: the true run time (clairvoyant): the bound that better predictions could reach.
- `last-two`: the average of the user's last two jobs that ended, never more than asked (Tsafrir, Etsion, Feitelson:
  "Backfilling using system-generated predictions rather than user runtime estimates", TPDS 2007). A job that outlives
  its prediction gets another: a minute more, then 5, 15, 30 minutes, 1, 2, 5, 10, 20, 50 and 100 hours in all.
- `xF`, as in `x2`: F times what the user asked for; `exact-xF`: F times the true run time (the f-model).

Whatever is told, a job is stopped only at the limit that its user asked for, or its queue has (`Task.stop_s`)."""

from __future__ import annotations

import re
from dataclasses import replace

from phalanx.model.job import Job
from phalanx.simulator.readers.lines import TraceError
from phalanx.simulator.workload.workload import Task

LONGER_S = (60, 300, 900, 1800, 3600, 7200, 18_000, 36_000, 72_000, 180_000, 360_000)
FACTOR = re.compile(r"(exact-)?x(\d+(?:\.\d+)?)")


class Estimator:
    """`user`: the trace's own limits."""

    def told(self, task: Task) -> Job:
        """The job as the scheduler hears of it when it is submitted."""
        return task.job

    def ended(self, task: Task, ran_s: float, now_s: float) -> None:
        """Learn that the task ran that long."""

    def outlived(self, task: Task, corrections: int) -> float | None:
        """The task still runs when its estimate is over. Return how long it is expected to run now; None: nothing else
        is told."""
        return None


class Scaled(Estimator):
    """`factor` times the user's estimate, or (`exact`) the run time."""

    def __init__(self, factor: float, *, exact: bool) -> None:
        self.factor, self.exact = factor, exact

    def told(self, task: Task) -> Job:
        asked_s = task.job.limit_s
        if self.exact:
            run_s = task.run_s if task.stop_s is None else min(task.run_s, task.stop_s)
            return replace(task.job, limit_s=run_s * self.factor)
        return task.job if asked_s is None else replace(task.job, limit_s=asked_s * self.factor)


class LastTwo(Estimator):
    """The mean of a user's last two run times. What ends at the very moment of a submission is not known to it yet:
    submissions come before ends."""

    def __init__(self) -> None:
        self._ran: dict[str, tuple[float, ...]] = {}  # user -> the last two run times
        self._ended: list[tuple[float, str, float]] = []  # the latest ends, of one moment: start, user, run time
        self._ended_s = 0.0
        self._predicted: dict[str, float] = {}

    def told(self, task: Task) -> Job:
        self._learn(task.job.submitted_s)
        ran, asked_s = self._ran.get(task.job.user, ()), task.job.limit_s
        if len(ran) < 2:
            return task.job
        predicted_s = float(max(1, int(sum(ran) / 2)))
        predicted_s = predicted_s if asked_s is None else min(predicted_s, asked_s)
        self._predicted[task.job.id] = predicted_s
        return replace(task.job, limit_s=predicted_s)

    def ended(self, task: Task, ran_s: float, now_s: float) -> None:
        self._learn(now_s)
        self._ended.append((now_s - ran_s, task.job.user, ran_s))
        self._ended_s = now_s
        self._predicted.pop(task.job.id, None)

    def _learn(self, now_s: float) -> None:
        """From what ended before, in the order of the starts where that was at one moment."""
        if not self._ended or self._ended_s >= now_s:
            return
        for _, user, ran_s in sorted(self._ended, key=lambda each: each[0]):
            self._ran[user] = (*self._ran.get(user, ())[-1:], ran_s)
        self._ended.clear()

    def outlived(self, task: Task, corrections: int) -> float | None:
        predicted_s, asked_s = self._predicted.get(task.job.id), task.job.limit_s
        if predicted_s is None:
            return None
        if corrections >= len(LONGER_S):
            return asked_s
        longer_s = predicted_s + LONGER_S[corrections]
        return longer_s if asked_s is None else min(longer_s, asked_s)


def estimator(name: str) -> Estimator:
    """Raises `TraceError`, naming what there is."""
    if name == "user":
        return Estimator()
    if name == "exact":
        return Scaled(1.0, exact=True)
    if name == "last-two":
        return LastTwo()
    found = FACTOR.fullmatch(name)
    if found is None or not 0 < float(found[2]) <= 1e6:
        raise TraceError(f"--estimates {name}: not one of user, exact, last-two, xF or exact-xF (as in x2)")
    return Scaled(float(found[2]), exact=bool(found[1]))
