"""`phalanx simulate`: run a workload in virtual time, and report how well each policy schedules it."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import product
from pathlib import Path
from typing import Annotated, TypeVar

from cyclopts import Parameter

from phalanx.cli.files.policy_file import setup_of
from phalanx.cli.study.simulation.cells import Cell, CellOutcome, Lost, run_all
from phalanx.cli.study.simulation.options import AtLeastOne, Chance, Given, Results, Tuning
from phalanx.cli.study.simulation.results import (
    Row,
    rows_of,
    table_rows,
    whole,
    write_csv,
    write_parquet,
    write_report,
    write_schedule,
    write_state,
)
from phalanx.cli.study.simulation.trace_source import TraceSource, workload_of
from phalanx.cli.study.simulation.tuning import tune
from phalanx.cli.terminal.output import counted, note, print_json_line, print_table
from phalanx.cli.terminal.progress import progress_bar
from phalanx.cli.terminal.stopping import stop_asked
from phalanx.errors import PhalanxError
from phalanx.loop import step
from phalanx.simulator.cluster.arrivals import estimator
from phalanx.simulator.readers.lines import told
from phalanx.simulator.run.feasible import never_fitting
from phalanx.simulator.run.setup import Setup
from phalanx.simulator.workload import Workload

Name = TypeVar("Name")

_NEVER_SHOWN = 5  # the maximum number of reasons that are printed
SOME_NEVER = 3  # the exit code if all simulations are complete, but some jobs can never run


def simulate(
    traces: Annotated[tuple[Path, ...], Parameter(name="TRACE", negative=())],
    /,
    *,
    policy: Annotated[tuple[str, ...], Parameter(consume_multiple=True)] = ("easy",),
    estimates: Annotated[tuple[str, ...], Parameter(consume_multiple=True)] = ("user",),
    given: Given | None = None,
    chance: Chance | None = None,
    results: Results | None = None,
    tuning: Tuning | None = None,
    processes: Annotated[int | None, AtLeastOne] = None,
) -> int:
    """Run traces through the scheduler in virtual time, and compare policies.

    A trace is a log in the Standard Workload Format, a table of the traces Philly, Muri, Chronus or openb (Alibaba), or
    your own workload in YAML or JSON. Files that end with `.gz` are unpacked. The header of a log states the size of
    its machine.

    For example:

        phalanx simulate KTH-SP2-1996-2.1-cln.swf --policy fifo easy easy-sjbf
        phalanx simulate philly.csv --cluster 128x8 --policy fair
        phalanx simulate mine.yaml --cluster 2x8 --node-group spot=0x8gpu,max=20,delay=3m,price=2.5
        phalanx simulate mine.yaml --policy mine-today.yaml mine-tomorrow.yaml --seeds 10
        phalanx simulate mine.yaml --policy easy wfp3.py
        phalanx simulate mine.swf --tune best.yaml --trials 100 --max-wait 3d

    Parameters
    ----------
    traces
        One or more files with traces.
    policy
        The policies to compare: names of built-in policies (easy, fair and others; an unknown name prints the list), or
        files with a policy and queues in YAML, or with a function in Python that computes priorities.
    estimates
        The run times that the scheduler assumes: user (the user's estimate), exact, last-two (from the user's last two
        jobs), x2 (twice the user's estimate) or exact-x2.
    processes
        The number of simulations that run in parallel. [default: the number of processors]
    """
    given, chance, results, tuning = given or Given(), chance or Chance(), results or Results(), tuning or Tuning()
    tuning.check()
    sources, seeds = [given.source(trace) for trace in _each(traces)], range(chance.seed, chance.seed + chance.seeds)
    policy, estimates = _each(policy), _each(estimates)
    _check_named("--policy", policy, "easy fifo")
    _check_named("--estimates", estimates, "user exact")
    of_all = _of_all(sources[0], chance, results)
    cells = [
        replace(of_all, source=source, policy=name, estimates=known, seed=seed)
        for source, name, known, seed in product(sources, policy, estimates, seeds)
    ]
    results.check([*traces, *(file for file in map(Path, (given.cluster, *policy)) if file.suffix)])
    if tuning.tune is not None:
        unused = [*_unused(cells), *results.said()]
        return tune(replace(of_all, seed=chance.seed), unused, tuning, _at_once(processes))
    jobs, some_never = _check(sources, policy, estimates, chance.seed)
    with stop_asked() as stopped:
        outcomes, lost = _play(cells, jobs, processes, stopped)
        code = _report(outcomes, results, missing=len(cells) - len(outcomes), lost=lost)
        return code or (SOME_NEVER if some_never else 0)


def _of_all(source: TraceSource, chance: Chance, results: Results) -> Cell:
    """Return a cell (one simulation) with the settings that are common to all simulations of this call."""
    return Cell(
        source=source,
        policy="",
        estimates="",
        seed=0,
        faults=chance.faults(),
        checkpoint_s=chance.checkpoint_s(),
        keep=results.schedule is not None,
        draw=results.report is not None,
        state=results.state is not None,
        fair_starts=results.fair_starts or 0,
        compactions=results.compactions or 0,
    )


def _unused(cells: Sequence[Cell]) -> list[str]:
    """Return the options of the command line that --tune does not support."""
    said = {
        "other traces": len({cell.source for cell in cells}) > 1,
        "--seeds": len({cell.seed for cell in cells}) > 1,
        "--policy": {cell.policy for cell in cells} != {"easy"},
        "--estimates": {cell.estimates for cell in cells} != {"user"},
    }
    return [name for name, is_said in said.items() if is_said]


def _each(named: Sequence[Name]) -> tuple[Name, ...]:
    """Return the names without repetitions, so that no simulation runs twice."""
    return tuple(dict.fromkeys(named))


def _check_named(option: str, named: Sequence[str], for_instance: str) -> None:
    """Raise PhalanxError if `option` was given without names."""
    if not named:
        raise PhalanxError(f"{option} has no value; leave the option out, or write for example {option} {for_instance}")


def _check(
    sources: Sequence[TraceSource], policies: Sequence[str], estimates: Sequence[str], seed: int
) -> tuple[int, bool]:
    """Check that all policies, estimates and traces of the command line exist, and print which jobs can never run.
    Return the number of jobs in all traces together, and True if some job can never run."""
    setups = [setup_of(name) for name in policies]
    for name in estimates:
        estimator(name)
    jobs, some_never = 0, False
    for source in sources:
        workload = workload_of(source, seed)
        _tell(workload)
        some_never |= _tell_never(workload, setups)
        jobs += len(workload.tasks)
    return jobs, some_never


def _tell(workload: Workload) -> None:
    for line in told(workload.faults):
        note(line)
    if workload.dropped:
        left = ", ".join(f"{count} {why}" for why, count in workload.dropped)
        note(f"{workload.name}: {counted(len(workload.tasks), 'job')}; left out: {left}")
    elif not workload.tasks:
        note(f"{workload.name}: the trace has no jobs")


def _tell_never(workload: Workload, setups: Sequence[Setup]) -> bool:
    """Print the number of jobs that can never run, with one example for each reason. If the lines are equal for all
    policies, print them only once. Return True if such a job exists."""
    found = {setup.name: never_fitting(workload, setup, step) for setup in setups}
    alike = len({tuple((task.job.id, why) for task, why in never) for never in found.values()}) == 1
    for name, never in list(found.items())[: 1 if alike else None]:
        under = "" if alike else f" under {name}"
        if never:
            of_all = f"{len(never):,} of {counted(len(workload.tasks), 'job')}"
            note(f"{workload.name}: {of_all} can never run{under}; the means count only the other jobs")
        alike_by_reason = Counter(why for _, why in never)
        first = dict(reversed([(why, task) for task, why in never]))
        for why, task in list(first.items())[: -_NEVER_SHOWN - 1 : -1]:
            others = f" (and {alike_by_reason[why] - 1:,} more for this reason)" if alike_by_reason[why] > 1 else ""
            note(f"{workload.name}: job {task.job.id} can never run{under}: {why}{others}")
    return any(found.values())


def _play(
    cells: Sequence[Cell], jobs: int, processes: int | None, stopped: Callable[[], bool]
) -> tuple[list[CellOutcome], str]:
    """Run the simulations. Return the outcomes. If some are missing, return also the error that stopped the
    simulations; otherwise ""."""
    rounds = len(cells) // max(1, len({cell.source for cell in cells}))
    outcomes = list[CellOutcome]()
    with progress_bar(jobs * rounds) as progress:
        try:
            for outcome in run_all(cells, processes=_at_once(processes), progress=progress, stopped=stopped):
                outcomes.append(outcome)  # keep the outcomes that arrived before an error
        except Lost as lost:
            return outcomes, str(lost)
    return outcomes, ""


def _at_once(processes: int | None) -> int:
    return max(1, processes or os.cpu_count() or 1)


def _report(outcomes: Sequence[CellOutcome], results: Results, *, missing: int, lost: str) -> int:
    """Print the results, and write the files afterwards, so that an error of a file does not hide the results. Return
    the exit code. `missing`: the number of runs without an outcome. `lost`: the error that stopped the simulations; ""
    if there was none."""
    rows = rows_of(outcomes)
    if results.json:
        for row in rows:
            print_json_line(row)
    elif rows:
        print_table(*table_rows(rows))
    for outcome in outcomes:
        _tell_unfinished(outcome)
    complaints = [*([lost] if lost else []), *_write(outcomes, rows, results, several=len(outcomes) + missing > 1)]
    for complaint in complaints:
        note(f"phalanx: error: {complaint}")
    if any(outcome.measures["interrupted"] for outcome in outcomes) or (missing and not lost):
        rest = f"; {missing} of {len(outcomes) + missing} runs were not started" if missing else ""
        note(f"stopped before the end: these are the results so far{rest}")
        return 130
    return 1 if complaints else 0


def _tell_unfinished(outcome: CellOutcome) -> None:
    """Print the number of jobs that did not end, because the means count only ended jobs."""
    cell, measures = outcome.cell, outcome.measures
    if measures["unfinished"] and not measures["interrupted"] and cell.source.inflate is None:
        others = f"{measures['unfinished']:,} of {counted(measures['jobs'], 'job')}"
        note(
            f"{measures['trace']}: under {measures['policy']} {others} did not end; the means count only the other jobs"
        )


def _write(outcomes: Sequence[CellOutcome], rows: Sequence[Row], results: Results, *, several: bool) -> Iterator[str]:
    """Write the requested files. Yield an error text for each file that could not be written. `several`: True if the
    call has more than one run."""
    wanted: list[tuple[Path | None, Callable[[Path], None]]] = [
        (results.report, lambda file: write_report(outcomes, file)),
        (results.state, lambda file: write_state(outcomes, file)),
        (results.csv, lambda file: write_csv(rows, file)),
        (results.parquet, lambda file: write_parquet(rows, file)),
    ]
    if results.schedule is not None:
        files = _named(results.schedule, outcomes) if several else [results.schedule] * len(outcomes)
        wanted += [(each, partial(_write_schedule, of)) for each, of in zip(files, outcomes, strict=True)]
    for file, write in wanted:
        if file is not None:
            try:
                with whole(file) as part:
                    write(part)
            except PhalanxError as error:
                yield str(error)


def _write_schedule(outcome: CellOutcome, file: Path) -> None:
    if outcome.schedule is not None:
        write_schedule(outcome.schedule, file)


def _named(file: Path, outcomes: Sequence[CellOutcome]) -> list[Path]:
    """Return the file of each outcome's schedule: `out.csv` becomes `out-TRACE-POLICY-ESTIMATES-SEED.csv`. If traces or
    policies in several folders have the same name, a number is added."""
    stems = list[str]()
    for cell in (outcome.cell for outcome in outcomes):
        parts = (file.stem, cell.source.trace.stem, Path(cell.policy).stem, cell.estimates, str(cell.seed))
        stem, number = "-".join(parts), 1
        while (found := stem if number == 1 else f"{stem}-{number}") in stems:
            number += 1
        stems.append(found)
    return [file.with_name(stem + file.suffix) for stem in stems]
