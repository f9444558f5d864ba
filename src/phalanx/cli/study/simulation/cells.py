"""Run many simulations in parallel. A *cell* is one simulation: one trace with one policy, one kind of estimates and
one seed.

Cells run in worker processes, by default one for each processor. Each worker reads its trace itself, because reading a
trace takes less time than sending it to the worker. A single cell runs in this process. When the run must stop, a
shared flag is set, and the workers return their partial results. Workers ignore SIGINT, because this process handles
Ctrl-C. If this process dies, the kernel kills the workers."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import CancelledError, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from ctypes import c_bool
from dataclasses import dataclass
from functools import partial
from math import inf
from multiprocessing import get_context
from multiprocessing.context import BaseContext
from multiprocessing.sharedctypes import Synchronized
from typing import Any

from phalanx import loop
from phalanx.cli.files.policy_file import setup_of
from phalanx.cli.study.simulation.trace_source import TraceSource, workload_of
from phalanx.cli.terminal.output import counted
from phalanx.cli.terminal.stopping import die_with
from phalanx.cli.views.page.study import Observer, encoded
from phalanx.dashboard.rows import Facts
from phalanx.errors import PhalanxError
from phalanx.simulator.cluster.disturbance import Faults
from phalanx.simulator.measures.fairness import fair_starts
from phalanx.simulator.measures.fragmentation import compaction
from phalanx.simulator.measures.measure import measure
from phalanx.simulator.report.picture import Picture, picture, waiting_over_time
from phalanx.simulator.run.play import allocated, play, policy_for
from phalanx.simulator.schedule import Schedule, window

LOOK_S = 0.2


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    source: TraceSource
    policy: str
    estimates: str
    seed: int
    faults: Faults | None = None
    checkpoint_s: float | None = None
    keep: bool = False  # True if the outcome contains the schedule
    draw: bool = False  # True if the outcome contains a picture of the schedule, for a report
    state: bool = False  # True if the outcome contains a state file of the moment with the longest queue
    fair_starts: int = 0  # the number of jobs whose fair start time is computed
    compactions: int = 0  # for `compacted_cell_ratio`: the number of random orders in which nodes are removed


@dataclass(frozen=True, slots=True, kw_only=True)
class CellOutcome:
    """The result of a cell. `measures`: the measures by their documented names. `schedule`, `picture`: None unless they
    were requested. `state`: the content of a state file; empty unless it was requested."""

    cell: Cell
    measures: dict[str, Any]
    schedule: Schedule | None = None
    picture: Picture | None = None
    state: bytes = b""


class Lost(PhalanxError):
    """A worker process was killed, so the outcome of its simulation is lost."""


def run(
    cell: Cell,
    *,
    progress: Callable[[int], None] = lambda done: None,
    stopped: Callable[[], bool] = lambda: False,
) -> CellOutcome:
    workload, setup = workload_of(cell.source, cell.seed), setup_of(cell.policy)
    loop.spare_the_book()  # otherwise each garbage collection would visit a million tasks
    alike = partial(
        play,
        setup=setup,
        step=loop.step,
        estimates=cell.estimates,
        seed=cell.seed,
        faults=cell.faults,
        checkpoint_s=cell.checkpoint_s,
        stopped=stopped,
    )
    schedule = alike(workload, progress=progress)
    measures = measure(schedule)
    if cell.source.inflate is not None:
        measures |= _filling(schedule)
    if cell.compactions and not schedule.interrupted:
        measures |= compaction(schedule, policy_for(setup, workload), loop.step, cell.compactions, stopped)
    if cell.fair_starts and not schedule.interrupted:
        measures |= fair_starts(schedule, alike, cell.fair_starts)
    state = _longest_queue(schedule, alike, stopped) if cell.state and not schedule.interrupted else b""
    measures["interrupted"] |= bool(cell.compactions or cell.fair_starts) and stopped()
    return CellOutcome(
        cell=cell,
        measures=measures,
        schedule=schedule if cell.keep else None,
        picture=picture(schedule) if cell.draw else None,
        state=state,
    )


def _longest_queue(schedule: Schedule, alike: Callable[..., Schedule], stopped: Callable[[], bool]) -> bytes:
    """Return the state file of the moment with the longest queue. To compute the file, run the simulation again up to
    this moment. `alike`: a function that runs the simulation with the same settings."""
    since_s, until_s = window(schedule)
    _, queued = waiting_over_time(schedule, since_s, until_s)
    bin_s = (until_s - since_s) / max(1, len(queued))
    at_s = since_s + (max(range(len(queued)), key=queued.__getitem__, default=0) + 0.5) * bin_s
    study = f"simulation of {schedule.workload.name} under {schedule.policy}"
    observer = Observer(at_s, facts=Facts(cluster=schedule.workload.name, past=True, study=study))
    alike(schedule.workload, step=observer.step, stopped=lambda: observer.state is not None or stopped())
    return encoded(observer) if observer.state is not None else b""


def _filling(schedule: Schedule) -> dict[str, float]:
    """Return the allocated share of the cluster at two moments: when the sum of the submitted jobs' requests reaches
    the size of the cluster, and at the end."""
    return {"allocated_at_full_demand": allocated(schedule, 1.0), "allocated_at_end": allocated(schedule, inf)}


_done: Synchronized[int] | None = None  # the number of jobs that have ended in all cells; shared by the workers
# True if the simulations must stop; it has no lock, so that reading it before every scheduling cycle is cheap
_stop: c_bool | None = None


def _share(parent: int, done: Synchronized[int], stop: c_bool) -> None:
    global _done, _stop
    _done, _stop = done, stop
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    die_with(parent)


def _run_there(cell: Cell) -> CellOutcome:
    before = 0

    def progress(done: int) -> None:
        nonlocal before
        if _done is not None:
            with _done.get_lock():
                _done.value += done - before
        before = done

    return run(cell, progress=progress, stopped=lambda: _stop is not None and _stop.value)


def run_all(
    cells: Sequence[Cell],
    *,
    processes: int,
    progress: Callable[[int], None],
    stopped: Callable[[], bool] = lambda: False,
) -> Iterator[CellOutcome]:
    """Yield the outcomes of the cells, in their order. `progress`: a function that is called with the number of jobs
    that have ended in all cells. If outcomes are lost, raise `Lost` after all other outcomes."""
    if len(cells) == 1 or processes == 1:
        over = 0

        def told(done: int) -> None:
            progress(over + done)

        for cell in cells:
            outcome = run(cell, progress=told, stopped=stopped)
            over += outcome.measures["finished"]
            yield outcome
            if stopped():
                return
        return
    yield from _side_by_side(cells, processes, progress, stopped)


@contextmanager
def _nobody_left(context: BaseContext) -> Iterator[None]:
    """Kill the workers if the context ends with an exception, so that a second Ctrl-C does not wait for running
    simulations."""
    try:
        yield
    except BaseException:
        for process in context.active_children():
            process.kill()
        raise


def _side_by_side(
    cells: Sequence[Cell], processes: int, progress: Callable[[int], None], stopped: Callable[[], bool]
) -> Iterator[CellOutcome]:
    context = get_context()
    done, stop = context.Value("q", 0), context.RawValue(c_bool, False)
    pool = ProcessPoolExecutor(
        min(processes, len(cells)), mp_context=context, initializer=_share, initargs=(os.getpid(), done, stop)
    )
    with pool, _nobody_left(context):
        futures = [pool.submit(_run_there, cell) for cell in cells]
        waiting = set(futures)
        while waiting:
            _, waiting = wait(waiting, timeout=LOOK_S)
            progress(done.value)
            if stopped() and not stop.value:
                stop.value = True
                for future in futures:
                    future.cancel()
        lost = list[Cell]()
        for cell, future in zip(cells, futures, strict=True):
            try:
                yield future.result()
            except CancelledError:
                pass
            except BrokenProcessPool:
                lost.append(cell)
        if lost:
            others = f" and {counted(len(lost) - 1, 'run')} more" if len(lost) > 1 else ""
            raise Lost(
                f"{lost[0].source.trace} under {lost[0].policy}{others} lost: a simulation process was killed. If "
                "memory was short, use --processes 1, which needs the least memory."
            )
