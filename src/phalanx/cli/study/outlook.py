"""Compare two simulations of the same jobs: without a change, and with the change.

The first part shows each job's wait in both simulations as table rows and as JSON, with notes. The second part
summarizes the effects of the change: the jobs that it stops, the jobs that start earlier, and the jobs that start later
or not at all.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from phalanx.cli.terminal.output import counted, duration
from phalanx.cli.views.job.job_view import interval, start_record
from phalanx.client.moment import write_moment
from phalanx.model.reason import Reason, StartForecast
from phalanx.simulator.run.forward import Course, ForwardEviction, Future

EXPECTED = "EXPECTED START"
COLUMNS = ("JOB", "QUEUE", "NOW", "BEFORE", "AFTER", "DIFFERENCE", "PREEMPTED BY")


@dataclass(frozen=True, slots=True, kw_only=True)
class Prospect:
    """The simulated course of a job without the changes (`before`) and with them (`after`). A course is None if the job
    does not exist in that simulation."""

    job: str
    before: Course | None
    after: Course | None

    @property
    def now(self) -> str:
        if self.before is None:
            return "new"
        return "deleted" if self.after is None else "runs" if self.before.ran else "waits"

    @property
    def queue(self) -> str:
        course = self.after or self.before
        return course.queue if course is not None else ""

    @property
    def untouched(self) -> bool:
        """Return True if the job runs now, and neither simulation preempts it."""
        return all(each is not None and each.ran and not each.evictions for each in (self.before, self.after))

    @property
    def difference_s(self) -> float | None:
        """Return the number of seconds by which the job waits longer with the changes; negative if it waits less, None
        if one of its two starts is unknown."""
        waits = [each.wait_s if each is not None else None for each in (self.before, self.after)]
        return None if waits[0] is None or waits[1] is None else waits[1] - waits[0]


@dataclass(frozen=True, slots=True, kw_only=True)
class WhatIfOutlook:
    """The results of the two simulations, without and with the changes. `now_s`: the present time, in seconds since the
    epoch.
    `horizon_s`: the length of the simulated time. `run_s`: the assumed run time of a job without a time limit.
    `expected`: the expected starts of pending jobs with the changes; empty if no run times are known."""

    before: Future
    after: Future
    now_s: float
    horizon_s: float
    run_s: float
    expected: Mapping[str, StartForecast] = field(default_factory=dict)

    @property
    def columns(self) -> tuple[str, ...]:
        return (*COLUMNS, EXPECTED) if self.expected else COLUMNS

    def prospects(self) -> list[Prospect]:
        """Return the prospects of all jobs: first new jobs, then the other jobs by their start. Jobs that only continue
        to run are left out."""
        before, after = self.before.courses, self.after.courses
        found = [Prospect(job=job, before=before.get(job), after=after.get(job)) for job in {**after, **before}]
        return sorted((each for each in found if not each.untouched), key=_place)

    def untouched(self) -> int:
        jobs = {**self.after.courses, **self.before.courses}
        return len(jobs) - len(self.prospects())


def rows(outlook: WhatIfOutlook) -> list[list[str]]:
    """Return the rows of the table, with the cells of the outlook's columns."""
    return [
        [
            each.job,
            each.queue,
            each.now,
            wait(each.before, outlook),
            wait(each.after, outlook),
            difference(each, outlook),
            "; ".join(evictions(each.after, outlook)),
            *([expected_start(each.job, outlook)] if outlook.expected else []),
        ]
        for each in outlook.prospects()
    ]


def expected_start(job: str, outlook: WhatIfOutlook) -> str:
    """Return the interval between the first and the third quartile of the job's expected start, as text; "" if it is
    unknown."""
    found = outlook.expected.get(job)
    return interval(found.likely_s, outlook.now_s) if found is not None else ""


def notes(outlook: WhatIfOutlook) -> Iterator[str]:
    """Yield the notes below the table: the assumptions, and the reasons why jobs do not start."""
    yield from assumptions(outlook)
    for each in outlook.prospects():
        if each.after is not None and each.after.wait_s is None:
            yield f"{each.job} does not start within {duration(outlook.horizon_s)}{because(each.after.reason)}"


def assumptions(outlook: WhatIfOutlook) -> Iterator[str]:
    """Yield notes about the number of jobs that are not listed, and about the assumptions of the simulation."""
    if others := outlook.untouched():
        yield f"{counted(others, 'running job')} not listed, because no job preempts {'it' if others == 1 else 'them'}."
    if unlimited := outlook.after.unlimited:
        shown = ", ".join(unlimited[:3]) + (f" and {len(unlimited) - 3} more" if len(unlimited) > 3 else "")
        verbs = ("runs", "is") if len(unlimited) == 1 else ("run", "are")
        yield (
            f"{shown} {verbs[0]} without a time limit, and {verbs[1]} assumed to end in {duration(outlook.run_s)} "
            "(--assume-run)."
        )
    if outlook.after.until_s < outlook.now_s + outlook.horizon_s:
        played = duration(outlook.after.until_s - outlook.now_s)
        yield f"The simulation was too slow, so only the next {played} were simulated; later starts are shown as never."


def because(reason: Reason | None) -> str:
    return f": {reason.code}: {reason.text}" if reason is not None else "."


def record(outlook: WhatIfOutlook) -> dict[str, Any]:
    """Return the record for `--json`, which docs/guide/whatif.md describes."""
    return {
        "now": write_moment(outlook.now_s),
        "horizon_s": outlook.horizon_s,
        "assumed_run_s": outlook.run_s,
        "jobs": [
            {
                "job": each.job,
                "queue": each.queue,
                "now": each.now,
                "before": told(each.before),
                "after": told(each.after),
                "expected_start": start_record(outlook.expected.get(each.job)),
                "difference_s": each.difference_s,
            }
            for each in outlook.prospects()
        ],
        "notes": list(notes(outlook)),
    }


def told(course: Course | None) -> dict[str, Any] | None:
    if course is None:
        return None
    reason = course.reason
    return {
        "wait_s": course.wait_s,
        "starts": [write_moment(at_s) for at_s in course.starts_s],
        "end": None if course.end_s is None else write_moment(course.end_s),
        "preempted": [{"at": write_moment(each.at_s), "by": each.by, "ran_s": each.ran_s} for each in course.evictions],
        "reason": reason and {"code": reason.code, "text": reason.text},
    }


def wait(course: Course | None, outlook: WhatIfOutlook) -> str:
    """Return the time from now until a job's start as text. For a running job that is preempted, return its wait after
    the preemption."""
    if course is None:
        return "-"
    if course.wait_s is None:
        return f"over {duration(outlook.horizon_s)}"
    if course.ran and not course.evictions:
        return "runs"
    return duration(course.wait_s) if course.wait_s >= 1.0 else "at once"


def difference(prospect: Prospect, outlook: WhatIfOutlook) -> str:
    """Return the difference between the two waits as text: `+40s`, `-1h`. If one of the two starts is after the
    horizon, the text contains `over`."""
    if prospect.before is None or prospect.after is None:
        return ""
    before_s, after_s = prospect.before.wait_s, prospect.after.wait_s
    if before_s is None and after_s is None:
        return "same"
    bound = "" if before_s is not None and after_s is not None else "over "
    more_s = (outlook.horizon_s if after_s is None else after_s) - (outlook.horizon_s if before_s is None else before_s)
    if abs(more_s) < 1.0 and not bound:
        return "same"
    return f"{'+' if more_s > 0 else '-'}{bound}{duration(abs(more_s))}"


def evictions(course: Course | None, outlook: WhatIfOutlook) -> Iterator[str]:
    for each in course.evictions if course is not None else ():
        after_s = each.at_s - outlook.now_s
        when = f"in {duration(after_s)}" if after_s >= 1.0 else "at once"
        yield f"{each.by or '(no node for its pods)'} {when}, having run {duration(each.ran_s)}"


def _place(prospect: Prospect) -> tuple[bool, float, str]:
    course = prospect.after or prospect.before
    wait_s = course.wait_s if course is not None else None
    return prospect.now != "new", float("inf") if wait_s is None else wait_s, prospect.job


# --- effects ----------------------------------------------------------------------------------------------------------

_SHOWN = 10
_LEAST_S = 1.0  # two starts count as equal if their times differ by less than this


@dataclass(frozen=True, slots=True, kw_only=True)
class WhatIfEffects:
    """The effects of a change. `stopped`: jobs that are preempted with the change, but not without it. `earlier`,
    `later`: jobs that start earlier or later with the change. `never`: jobs that start without the change, but not with
    it."""

    stopped: tuple[tuple[Prospect, ForwardEviction], ...]
    earlier: tuple[Prospect, ...]
    later: tuple[Prospect, ...]
    never: tuple[Prospect, ...]


def effects(outlook: WhatIfOutlook) -> WhatIfEffects:
    """Return the effects of the change: the differences between the two simulations of the outlook."""
    prospects = outlook.prospects()
    stopped = tuple((each, eviction) for each in prospects for eviction in _further_evictions(each))
    others = [each for each in prospects if each.job not in {one.job for one, _ in stopped}]
    return WhatIfEffects(
        stopped=stopped,
        earlier=tuple(each for each in others if _gain_s(each, outlook) >= _LEAST_S),
        later=tuple(each for each in others if _gain_s(each, outlook) <= -_LEAST_S and not _is_lost(each)),
        never=tuple(each for each in others if _is_lost(each)),
    )


def lines(found: WhatIfEffects, outlook: WhatIfOutlook) -> Iterator[str]:
    """Yield the effects as text."""
    stopped = [
        f"{each.job}, in queue {each.queue}, for {eviction.by or 'no job'} {_when(eviction, outlook)}, having run "
        f"{duration(eviction.ran_s)}"
        for each, eviction in found.stopped
    ]
    yield from _group("stopped", stopped)
    yield from _group("earlier", [f"{each.job}: {difference(each, outlook)}" for each in found.earlier])
    yield from _group("later", [f"{each.job}: {difference(each, outlook)}" for each in found.later])
    never = [f"{each.job}{because(each.after.reason if each.after else None)}" for each in found.never]
    yield from _group(f"not within {duration(outlook.horizon_s)}", never)


def effects_record(found: WhatIfEffects) -> dict[str, object]:
    """Return the effects for `--json`."""
    return {
        "stopped": [
            {"job": each.job, "queue": each.queue, "by": eviction.by, "ran_s": eviction.ran_s}
            for each, eviction in found.stopped
        ],
        **{
            name: [
                {"job": each.job, "queue": each.queue, "difference_s": each.difference_s}
                for each in getattr(found, name)
            ]
            for name in ("earlier", "later", "never")
        },
    }


def _group(title: str, texts: Sequence[str]) -> Iterator[str]:
    yield f"{title}: {counted(len(texts), 'job') if texts else 'no job'}"
    yield from (f"  {text}" for text in texts[:_SHOWN])
    if len(texts) > _SHOWN:
        yield f"  and {counted(len(texts) - _SHOWN, 'more job')}"


def _when(eviction: ForwardEviction, outlook: WhatIfOutlook) -> str:
    after_s = eviction.at_s - outlook.now_s
    return f"in {duration(after_s)}" if after_s >= _LEAST_S else "at once"


def _further_evictions(each: Prospect) -> tuple[ForwardEviction, ...]:
    if each.after is None:
        return ()
    return tuple(each.after.evictions[len(each.before.evictions) if each.before is not None else 0 :])


def _gain_s(each: Prospect, outlook: WhatIfOutlook) -> float:
    """Return the number of seconds by which the job starts earlier with the change. A start after the horizon counts as
    a start at the horizon."""
    if each.before is None or each.after is None:
        return 0.0
    before_s, after_s = each.before.wait_s, each.after.wait_s
    return (outlook.horizon_s if before_s is None else before_s) - (outlook.horizon_s if after_s is None else after_s)


def _is_lost(each: Prospect) -> bool:
    return (
        each.before is not None
        and each.after is not None
        and each.before.wait_s is not None
        and each.after.wait_s is None
    )
