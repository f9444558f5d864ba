"""Summarize results of simulations: one row for each trace, policy and kind of estimates. With several seeds, a row has
the means and their confidence intervals. Rows are printed as a table or JSON, or written as CSV or Parquet. Schedules
are written job by job.

Policies are compared in pairs: a seed determines the same workload and the same faults for all policies. So the
difference between two policies is computed for each seed, and the confidence interval is computed from these
differences."""

from __future__ import annotations

import csv
import gzip
import os
import sys
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from math import ceil
from pathlib import Path
from typing import Any, TextIO

from phalanx.cli.study.simulation.cells import CellOutcome
from phalanx.cli.study.simulation.options import pyarrow
from phalanx.errors import PhalanxError
from phalanx.simulator.report.page import page
from phalanx.simulator.schedule import Fate, Schedule, capacity, half_width_95, mean, sizes

# The columns of the table: (heading, measure, format).
COLUMNS = (
    ("JOBS", "jobs", "{:,.0f}"),
    ("WAIT", "mean_wait_s", "{:,.0f} s"),
    ("P95 WAIT", "p95_wait_s", "{:,.0f} s"),
    ("JCT", "mean_jct_s", "{:,.0f} s"),
    ("SLOWDOWN", "mean_bounded_slowdown", "{:,.2f}"),
    ("MEDIAN", "median_bounded_slowdown", "{:,.2f}"),
    ("P95", "p95_bounded_slowdown", "{:,.2f}"),
    ("USED", "utilisation", "{:.1%}"),
    ("MAKESPAN", "makespan_s", "{:,.0f} s"),
)
# measures that are undefined if no job has ended
OF_ENDED = {measure for _, measure, _ in COLUMNS} - {"jobs", "utilisation"}
SPEED = ("JOBS/S", "jobs_per_s", "{:,.0f}")  # the last column
IF_ANY = (
    ("BILL", "bill", "{:,.2f}"),
    ("PAID USED", "paid_use_ratio", "{:.1%}"),
    ("MISSED", "deadline_miss_ratio", "{:.1%}"),
    ("VALUE", "value_attained_ratio", "{:.1%}"),
    ("UNFAIR", "fair_start_miss_ratio", "{:.1%}"),
    ("PACKED", "compacted_cell_ratio", "{:.1%}"),
    ("AT 100 %", "allocated_at_full_demand", "{:.2%}"),
    ("AT THE END", "allocated_at_end", "{:.2%}"),
)
NAMING = ("trace", "policy", "estimates")
# Fields that depend on the speed of this machine, and not on the schedule.
MACHINE_MADE = {
    *("wall_s", "jobs_per_s", "passes_per_s", "times_real_time", "peak_rss_bytes"),
    *(f"{part}_decision_s" for part in ("mean", "median", "p90", "p95", "p99", "max")),
}

Row = dict[str, Any]


def rows_of(outcomes: Sequence[CellOutcome]) -> list[Row]:
    """Return a row for each trace, policy and kind of estimates, in order. With several seeds, each row is also
    compared with the first row of its trace."""
    groups: dict[tuple[str, ...], list[Row]] = {}
    for outcome, measures in zip(outcomes, distinct(outcomes), strict=True):
        key = (str(outcome.cell.source.trace), outcome.cell.policy, outcome.cell.estimates)
        groups.setdefault(key, []).append(measures)
    first: dict[str, list[Row]] = {}
    rows = []
    for (trace, _, _), of_seeds in groups.items():
        rows.append(_row(of_seeds, first.setdefault(trace, of_seeds)))
    return rows


def distinct(outcomes: Sequence[CellOutcome]) -> list[Row]:
    """Return the measures of each outcome. If traces or policies in several folders have the same name, the measures
    have their paths instead of their names."""
    said = [{"trace": str(each.cell.source.trace), "policy": each.cell.policy} for each in outcomes]
    paths: dict[tuple[str, str], set[str]] = defaultdict(set)
    for outcome, names in zip(outcomes, said, strict=True):
        for kind, path in names.items():
            paths[kind, outcome.measures[kind]].add(path)
    return [
        outcome.measures | {kind: path for kind, path in names.items() if len(paths[kind, outcome.measures[kind]]) > 1}
        for outcome, names in zip(outcomes, said, strict=True)
    ]


def _row(of_seeds: Sequence[Row], first: Sequence[Row]) -> Row:
    if len(of_seeds) == 1:
        return dict(of_seeds[0])
    measured = [{name: value for name, value in each.items() if name != "seed"} for each in of_seeds]
    row: Row = {name: of_seeds[0][name] for name in NAMING}
    row["seeds"] = [each["seed"] for each in of_seeds]
    row |= combined(measured, mean)
    row["ci95"] = combined(measured, half_width_95)
    if first is not of_seeds:
        row["versus"] = _paired(of_seeds, first)
    row["interrupted"] = any(each["interrupted"] for each in of_seeds)
    row["schedule_sha256"] = [each["schedule_sha256"] for each in of_seeds]
    return row


def combined(rows: Sequence[Row], of: Callable[[Sequence[float]], float]) -> Row:
    """Combine rows to one row. Each number of the result, at any depth, is the result of `of` for the same number in
    all rows. Rows without the number are left out; if no row has it, the value is None."""
    found: Row = {}
    for name in dict.fromkeys(name for row in rows for name in row):
        there = [row[name] for row in rows if row.get(name) is not None]
        if not there:
            found[name] = None
        elif all(isinstance(value, Mapping) for value in there):
            found[name] = combined(there, of)
        elif all(_is_number(value) for value in there):
            found[name] = of(there)
    return found


def _paired(of_seeds: Sequence[Row], first: Sequence[Row]) -> Row:
    """Compare a policy with the first policy, seed by seed. The row has two numbers for each measure that both policies
    have: the mean of the differences over all seeds, and the half width of its 95 % confidence interval."""
    by_seed = {each["seed"]: each for each in first}
    pairs = [(each, by_seed[each["seed"]]) for each in of_seeds if each["seed"] in by_seed]
    found: Row = {"policy": f"{first[0]['policy']} ({first[0]['estimates']})"}
    for name in dict.fromkeys(name for each in of_seeds for name, value in each.items() if _is_number(value)):
        differences = [a[name] - b[name] for a, b in pairs if name in a and name in b]
        if differences and name != "seed" and name not in MACHINE_MADE:
            found[name] = {"difference": mean(differences), "ci95": half_width_95(differences)}
    return found


def table_rows(rows: Sequence[Row]) -> tuple[list[str], list[list[str]]]:
    """Return the headings and cells of the table. The columns for the trace and the estimates are left out if all rows
    have the same value."""
    naming = [name for name in NAMING if name == "policy" or len({row[name] for row in rows}) > 1]
    columns = (*COLUMNS, *(each for each in IF_ANY if any(each[1] in row for row in rows)), SPEED)
    cells = [
        [str(row[name]) for name in naming] + [_cell(row, name, form) for _, name, form in columns] for row in rows
    ]
    return [*(name.upper() for name in naming), *(heading for heading, _, _ in columns)], cells


def _cell(row: Row, name: str, form: str) -> str:
    if name not in row or (name in OF_ENDED and not row["finished"]):
        return "-"
    sure = row.get("ci95", {}).get(name)
    return form.format(row[name]) + (f" ±{sure / abs(row[name]):.1%}" if sure and row[name] else "")


def flat(row: Mapping[str, object]) -> Row:
    """Return the row with one level. The nested fields `by_queue`, `by_size`, `ci95` and `versus` get names such as
    `by_queue.a.mean_wait_s`."""
    found: Row = {}
    for name, value in row.items():
        if isinstance(value, Mapping):
            found |= {f"{name}.{inner}": each for inner, each in flat(value).items()}
        else:
            found[name] = " ".join(map(str, value)) if isinstance(value, list) else value
    return found


@contextmanager
def whole(file: Path) -> Iterator[Path]:
    """Yield a temporary file for writing, in the directory of `file`. At the end the temporary file replaces `file`. So
    `file` never has results of two runs, and keeps its old content if the disk is full. If `file` is not a regular file
    (`/dev/stdout`), `file` itself is yielded. Raises PhalanxError if the file cannot be written."""
    place = file.resolve()
    part = place.with_name(f".{os.getpid()}.{place.name}") if place.is_file() or not place.exists() else file
    try:
        yield part
        if part is not file:
            part.replace(place)
    except OSError as error:
        raise PhalanxError(f"{file} cannot be written: {error.strerror or error}") from error
    finally:
        if part is not file:
            part.unlink(missing_ok=True)


def write_csv(rows: Sequence[Row], file: Path) -> None:
    flats = [flat(row) for row in rows]
    names = list(dict.fromkeys(name for row in flats for name in row))
    with file.open("w", newline="") as out:
        writer = csv.DictWriter(out, names, restval="", lineterminator="\n")
        writer.writeheader()
        writer.writerows(flats)


def write_parquet(rows: Sequence[Row], file: Path) -> None:
    arrow, parquet = pyarrow()
    flats = [flat(row) for row in rows]
    names = list(dict.fromkeys(name for row in flats for name in row))
    parquet.write_table(arrow.table({name: [row.get(name) for row in flats] for name in names}), file)


def write_report(outcomes: Sequence[CellOutcome], file: Path) -> None:
    """Write the page with the pictures of the schedules. If a policy was simulated with several seeds, the first one is
    drawn."""
    drawn: dict[tuple[Path, str, str], CellOutcome] = {}
    for outcome in outcomes:
        if outcome.picture is not None:
            drawn.setdefault((outcome.cell.source.trace, outcome.cell.policy, outcome.cell.estimates), outcome)
    pictures = [each.picture for each in drawn.values() if each.picture is not None]
    file.write_text(page(pictures, [each.measures for each in drawn.values()], made_by=command()), encoding="utf-8")


def write_state(outcomes: Sequence[CellOutcome], file: Path) -> None:
    """Write the state file of the first run that has one. Raises PhalanxError if no run has one."""
    found = next((outcome.state for outcome in outcomes if outcome.state), b"")
    if not found:
        raise PhalanxError(f"{file} was not written: no run reached the moment of its longest queue")
    file.write_bytes(found)


def command() -> str:
    return " ".join(["phalanx", *sys.argv[1:]])


def write_schedule(schedule: Schedule, file: Path) -> None:
    """Write the schedule. If the name ends with `.swf`, the file is in SWF, with the simulated wait in field 3 and the
    run time in field 4. Otherwise it is CSV. If the name ends with `.gz`, the file is compressed."""
    packed = file.suffix == ".gz"
    with gzip.open(file, "wt", newline="") if packed else file.open("w", newline="") as out:
        if file.name.removesuffix(".gz").endswith(".swf"):
            _write_swf(schedule, out)
        else:
            _write_table(schedule, out)


def _write_table(schedule: Schedule, out: TextIO) -> None:
    names = ("job", "queue", "user", "size", "submit_s", "start_s", "end_s", "run_s", "starts", "outcome", "reason")
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(names)
    for fate, size in zip(schedule.fates, sizes(schedule), strict=True):
        job = fate.task.job
        times = [_plain(at_s) for at_s in (job.submitted_s, fate.start_s, fate.end_s, fate.ran_s)]
        waits = fate.start_s is None or fate.reason
        outcome = fate.outcome.value if fate.outcome else "waiting" if waits else "running"
        writer.writerow([job.id, fate.task.queue, job.user, _plain(size), *times, fate.starts, outcome, fate.reason])


def _write_swf(schedule: Schedule, out: TextIO) -> None:
    """Write the schedule in SWF, which has only numbers. If names of jobs, users or queues are not numbers, they get
    numbers, and the header lists those of users, groups and queues."""
    workload, tasks = schedule.workload, [fate.task for fate in schedule.fates]
    jobs = _numbered(task.job.id for task in tasks)
    users, groups = _numbered(task.job.user for task in tasks), _numbered(task.job.group for task in tasks)
    queues = _numbered(task.queue for task in tasks)
    out.write(f"; Version: 2.2\n; MaxJobs: {len(tasks)}\n; MaxRecords: {len(tasks)}\n")
    out.write(f"; MaxNodes: {len(schedule.nodes)}\n; MaxProcs: {int(capacity(schedule))}\n")
    for kind, numbers in (("Queue", queues), ("Note: user", users), ("Note: group", groups)):
        out.writelines(f"; {kind}: {number} {name}\n" for name, number in numbers.items() if str(number) != name)
    out.write(f"; Note: simulated by Phalanx, policy {schedule.policy}, {schedule.estimates}\n")
    out.write(f"; Note: from {workload.name}\n")
    for fate, size in zip(schedule.fates, sizes(schedule), strict=True):
        job = fate.task.job
        who = users.get(job.user, -1), groups.get(job.group, -1), queues.get(fate.task.queue, -1)
        out.write(_swf_line(fate, size, jobs[job.id], *who))


def _numbered(names: Iterable[str]) -> dict[str, int]:
    """Return name -> number. If all names are numbers, use these numbers. Otherwise the number of a name is its
    position, counted from 1. An empty name gets no number."""
    found = dict.fromkeys(name for name in names if name)
    if all(name.isdecimal() for name in found):
        return {name: int(name) for name in found}
    return {name: number for number, name in enumerate(found, 1)}


def _swf_line(fate: Fate, size: float, number: int, user: int, group: int, queue: int) -> str:
    job, status = fate.task.job, {"succeeded": 1, "failed": 0}.get(fate.outcome or "", -1)
    wait = -1 if fate.start_s is None else _plain(fate.start_s - job.submitted_s)
    run = _plain(fate.ran_s) if fate.end_s is not None else -1
    limit = -1 if job.limit_s is None else _plain(job.limit_s)
    count = ceil(size)
    return (
        f"{number} {_plain(job.submitted_s)} {wait} {run} {count} -1 -1 {count} {limit} -1 {status} "
        f"{user} {group} -1 {queue} -1 -1 -1\n"
    )


def _plain(value: float | None) -> str:
    """Return the number as text, without a fraction if it is a whole number; "" for None."""
    return "" if value is None else str(int(value)) if value == int(value) else repr(round(value, 6))


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
