"""`cli/study/outlook.py`: the effects of a change on jobs, in brief."""

from __future__ import annotations

from phalanx.cli.study.outlook import WhatIfOutlook, effects, effects_record, lines
from phalanx.simulator.run.forward import Course, ForwardEviction, Future


def course(job: str, wait_s: float | None, *evictions: ForwardEviction, ran: bool = False) -> Course:
    return Course(
        job=job,
        queue="lab",
        ran=ran,
        waits_since_s=0.0 if wait_s is None else None,
        waited_s=wait_s or 0.0,
        evictions=list(evictions),
    )


def test_effects_are_the_differences_of_two_futures() -> None:
    gone = ForwardEviction(at_s=30.0, by="victor", ran_s=600.0)
    before = [course("runs", 0.0, ran=True), course("victor", 900.0), course("same", 5.0), course("lost", 50.0)]
    after = [course("runs", 900.0, gone, ran=True), course("victor", 30.0), course("same", 5.4), course("lost", None)]
    before, after = [*before, course("late", 10.0)], [*after, course("late", 70.0)]
    futures = [Future(courses={one.job: one for one in each}, until_s=1e6, unlimited=()) for each in (before, after)]
    outlook = WhatIfOutlook(before=futures[0], after=futures[1], now_s=0.0, horizon_s=86400.0, run_s=3600.0)
    assert list(lines(effects(outlook), outlook)) == [
        "stopped: 1 job",
        "  runs, in queue lab, for victor in 30s, having run 10m",
        "earlier: 1 job",
        "  victor: -14m30s",
        "later: 1 job",
        "  late: +1m",
        "not within 1d: 1 job",
        "  lost.",
    ]
    assert effects_record(effects(outlook))["stopped"] == [
        {"job": "runs", "queue": "lab", "by": "victor", "ran_s": 600.0}
    ]
