"""Run many simulations in parallel. A *cell* is one simulation: one trace with one policy, one kind of estimates and
one seed.

Cells run in worker processes, by default one for each processor. A worker reads its trace itself, because to read a
trace twice is cheaper than to send it. A single cell runs in this process. When the run must stop, a shared flag is
set, and the workers return their partial results. Workers ignore a Ctrl-C of the terminal, because this process handles
it. If this process dies, the kernel kills the workers."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import CancelledError, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from ctypes import c_bool
from dataclasses import dataclass, replace
from functools import partial
from math import inf
from multiprocessing import get_context
from multiprocessing.context import BaseContext
from multiprocessing.sharedctypes import Synchronized
from pathlib import Path
from typing import Any

from phalanx import loop
from phalanx.cli.files.policy_file import SUFFIXES, setup_of
from phalanx.cli.study.simulation.workload_file import assembled, read_cluster, read_workload
from phalanx.cli.study.simulation.workload_nodes import WorkloadSite
from phalanx.cli.terminal.output import counted
from phalanx.cli.terminal.stopping import die_with
from phalanx.cli.views.page.study import Observer, encoded
from phalanx.dashboard.rows import Facts
from phalanx.errors import PhalanxError
from phalanx.simulator.cluster.disturbance import Faults
from phalanx.simulator.generate import generated, scaled, shaken
from phalanx.simulator.measures.fairness import fair_starts
from phalanx.simulator.measures.fragmentation import compaction
from phalanx.simulator.measures.measure import measure
from phalanx.simulator.readers import swf
from phalanx.simulator.readers.lines import OnError
from phalanx.simulator.readers.openb import read_nodes
from phalanx.simulator.readers.recognise import is_node_list, reader_of
from phalanx.simulator.report.picture import Picture, picture, waiting_over_time
from phalanx.simulator.run.play import allocated, inflated, play, policy_for
from phalanx.simulator.schedule import Schedule, window
from phalanx.simulator.workload import SimulatedGroup, Task, Workload, gpu_nodes, machine, on_nodes

MOST_NODES = 1_000_000
MOST_NAMES = 10_000  # the largest number of nodes of a group that are compared with the names of other nodes
LOOK_S = 0.2


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceSource:
    """A trace, and the options that change its workload before the simulation (see `Given`)."""

    trace: Path
    cluster: str = ""
    groups: tuple[SimulatedGroup, ...] = ()
    processors: int | None = None
    on_error: OnError = OnError.STOP
    follow: bool = False
    first: int | None = None
    skip: int = 0  # the number of jobs that are left out at the beginning
    load: float = 1.0
    shake_s: float = 0.0
    inflate: float | None = None
    overruns: bool = False


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
    compactions: int = 0  # the number of random orders in which nodes are removed


@dataclass(frozen=True, slots=True, kw_only=True)
class CellOutcome:
    """The result of a cell. `measures`: the measures by their documented names. `schedule`, `picture`: None unless they
    were requested. `state`: the content of a state file; empty unless it was requested."""

    cell: Cell
    measures: dict[str, Any]
    schedule: Schedule | None = None
    picture: Picture | None = None
    state: bytes = b""


def workload_of(source: TraceSource, seed: int) -> Workload:
    """Return the workload of the trace with all changes of the options. Raises PhalanxError."""
    found = _as_written(source, seed)
    tasks: Sequence[Task] = found.tasks
    if source.first is not None:
        tasks = tasks[: source.first]
    tasks = tasks[source.skip :]
    if source.overruns:
        tasks = [replace(task, overruns=True) for task in tasks]
    tasks = tasks if source.load == 1.0 else scaled(tasks, source.load)
    tasks = shaken(tasks, source.shake_s, seed) if source.shake_s else tasks
    found = replace(found, tasks=tasks)
    if source.cluster:
        found = placed_on(found, cluster_of(source.cluster, source.on_error))
        found = found if source.trace.suffix in SUFFIXES else on_nodes(found)
    if source.processors:
        found = replace(found, nodes=(machine(source.processors),))
    if source.groups:
        found = with_groups(found, source)
    if not found.kinds:
        raise PhalanxError(
            f"{source.trace}: the trace does not describe a cluster.\n"
            "Describe it with --cluster: a file, or for example 8x8 (nodes times GPUs)."
        )
    _check_reservations(found)
    return found if source.inflate is None else inflated(found, source.inflate, seed)


def with_groups(workload: Workload, source: TraceSource) -> Workload:
    """Return the workload on a cluster with node groups. For a log without --cluster and --processors, the nodes of the
    groups are the only nodes. Raises PhalanxError."""
    if source.inflate is not None:
        raise PhalanxError("--inflate needs a cluster of fixed size: leave out --node-group or --inflate")
    own = source.trace.suffix in SUFFIXES
    fixed = workload.nodes if own or source.cluster or source.processors else ()
    found = replace(workload, nodes=fixed, groups=source.groups)
    names = {node.name for node in fixed} & {node.name for each in source.groups for node in each.nodes(MOST_NAMES)}
    if names:
        raise PhalanxError(
            f"the cluster already has a node {min(names)}, a name that a node group would use: rename the group"
        )
    return found if own else on_nodes(found)


def placed_on(workload: Workload, site: WorkloadSite) -> Workload:
    """Return the workload on the nodes of the site. If the workload has topologies, they replace those of the site. The
    reservations of both are used."""
    return replace(
        workload,
        nodes=site.nodes,
        topologies=workload.topologies or site.topologies,
        reservations=(*site.reservations, *workload.reservations),
    )


def _check_reservations(workload: Workload) -> None:
    """Raise PhalanxError if a job names a reservation that does not exist, or if a reservation names a node that does
    not exist."""
    known, nodes = {each.name for each in workload.reservations}, {node.name for node in workload.nodes}
    for reservation in workload.reservations:
        if missing := [name for name in reservation.nodes if name not in nodes]:
            raise PhalanxError(
                f"{workload.name}: the reservation {reservation.name} names the node {missing[0]}, which the cluster "
                "does not have. Name nodes of the cluster, or describe both in one file."
            )
    for task in workload.tasks:
        if (named := task.job.reservation) and named not in known:
            others = f"only {', '.join(sorted(known))}" if known else "no reservation"
            raise PhalanxError(
                f"{workload.name}: job {task.job.id} names the reservation {named}, but there is {others}.\n"
                "Describe it under `reservations`, in this file or in the cluster's file."
            )


def _as_written(source: TraceSource, seed: int) -> Workload:
    if source.trace.suffix in SUFFIXES:
        return _own(source, seed)
    read = reader_of(source.trace)
    extra = {}
    if read is swf.read:  # only logs are sorted by submission; other tables must be read completely
        extra = {"follow": source.follow, "size": source.processors or _size(source), "first": source.first}
    return read(source.trace, on_error=source.on_error, **extra)


def _size(source: TraceSource) -> int | None:
    """Return the machine size for logs whose header has none: 1 if the options describe a cluster or node groups, so
    that the size does not matter; otherwise None."""
    return 1 if source.cluster or source.groups else None


def _own(source: TraceSource, seed: int) -> Workload:
    written = read_workload(source.trace)
    tasks = list(written.tasks)
    if written.recipe is not None:
        recipe = written.recipe
        if written.like:
            like = replace(source, trace=source.trace.parent / written.like, cluster="1x1", processors=None, first=None)
            recipe = replace(recipe, like=_as_written(like, seed).tasks)
        tasks += generated(recipe, seed)
    return assembled(source.trace.name, tasks, written.site)


def cluster_of(named: str, on_error: OnError) -> WorkloadSite:
    """Return the cluster that --cluster describes: a text such as `8x8`, openb's list of nodes, or a cluster file of
    Phalanx."""
    count, times, gpus = named.partition("x")
    if times and count.isdecimal() and gpus.isdecimal():
        if not (0 < int(count) <= MOST_NODES and 0 < int(gpus) <= 1024):
            raise PhalanxError(f"--cluster {named}: write 1x1 to {MOST_NODES}x1024 (nodes times GPUs)")
        return WorkloadSite(nodes=gpu_nodes(int(count), int(gpus)))
    file = Path(named)
    site = WorkloadSite(nodes=read_nodes(file, on_error=on_error)) if is_node_list(file) else read_cluster(file)
    if not site.nodes:
        raise PhalanxError(f"{file}: the file has no nodes")
    return site


class Lost(PhalanxError):
    """A worker process was killed, so the outcome of its simulation is lost."""


def run(
    cell: Cell,
    *,
    progress: Callable[[int], None] = lambda done: None,
    stopped: Callable[[], bool] = lambda: False,
) -> CellOutcome:
    workload, setup = workload_of(cell.source, cell.seed), setup_of(cell.policy)
    loop.spare_the_book()  # so that the garbage collector does not visit a million tasks again and again
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
    """Return the state file of the moment with the longest queue. For this, the simulation runs again up to this
    moment. `alike`: runs the simulation with the same settings."""
    since_s, until_s = window(schedule)
    _, queued = waiting_over_time(schedule, since_s, until_s)
    bin_s = (until_s - since_s) / max(1, len(queued))
    at_s = since_s + (max(range(len(queued)), key=queued.__getitem__, default=0) + 0.5) * bin_s
    study = f"simulation of {schedule.workload.name} under {schedule.policy}"
    observer = Observer(at_s, facts=Facts(cluster=schedule.workload.name, past=True, study=study))
    alike(schedule.workload, step=observer.step, stopped=lambda: observer.state is not None or stopped())
    return encoded(observer) if observer.state is not None else b""


def _filling(schedule: Schedule) -> dict[str, float]:
    """Return the allocated share of the cluster at the moment when the submitted jobs together request the whole
    cluster, and the share at the end."""
    return {"allocated_at_full_demand": allocated(schedule, 1.0), "allocated_at_end": allocated(schedule, inf)}


_done: Synchronized[int] | None = None  # the number of jobs that have ended in all cells; shared by the workers
# True if the simulations must stop; it has no lock, because it is read before every scheduling pass
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
    """Yield the outcomes of the cells, in their order. `progress`: called with the number of jobs that have ended in
    all cells. If outcomes are lost, raise `Lost` after all other outcomes."""
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
