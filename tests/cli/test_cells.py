"""`cli/study/simulation/cells.py`: runs of several simulations."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from phalanx.cli.study.simulation import cells
from phalanx.cli.study.simulation.cells import Cell, run, run_all
from phalanx.cli.study.simulation.trace_source import TraceSource


def cell(own: TraceSource, **options: Any) -> Cell:
    return Cell(source=own, policy="fifo", estimates="user", seed=0, **options)


def test_a_run_has_what_was_asked_for(own: TraceSource) -> None:
    plain = run(cell(own))
    assert (plain.measures["finished"], plain.schedule, plain.picture, plain.state) == (3, None, None, b"")
    whole = run(cell(own, keep=True, draw=True, state=True))
    assert whole.measures["schedule_sha256"] == plain.measures["schedule_sha256"]
    assert whole.schedule is not None
    assert whole.picture is not None
    assert whole.state


def test_a_run_that_is_stopped_has_partial_results(own: TraceSource) -> None:
    found = run(cell(own, state=True, fair_starts=1, compactions=1), stopped=lambda: True)
    assert found.measures["interrupted"] is True
    assert found.state == b""


def test_runs_one_after_the_other_count_all_jobs_and_stop_between_runs(own: TraceSource) -> None:
    told: list[int] = []
    three = [replace(cell(own), seed=seed) for seed in range(3)]
    found = list(run_all(three, processes=1, progress=told.append))
    assert [one.cell.seed for one in found] == [0, 1, 2]
    assert told == sorted(told)
    assert told[-1] == 9
    assert len(list(run_all(three, processes=1, progress=told.append, stopped=lambda: True))) == 1


def test_without_runs_there_are_no_outcomes() -> None:
    assert list(run_all([], processes=1, progress=lambda done: None)) == []


def test_a_worker_adds_what_has_ended_since_its_last_report(own: TraceSource, monkeypatch: pytest.MonkeyPatch) -> None:
    class Number:
        value = 100

        def get_lock(self) -> Any:
            import contextlib

            return contextlib.nullcontext()

    done, stop = Number(), SimpleNamespace(value=False)
    monkeypatch.setattr(cells, "_done", done)
    monkeypatch.setattr(cells, "_stop", stop)
    assert cells._run_there(cell(own)).measures["finished"] == 3
    assert done.value == 103
    stop.value = True
    assert cells._run_there(cell(own)).measures["interrupted"] is True
