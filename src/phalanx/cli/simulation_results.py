"""Results of simulations: one row per trace, policy and way of estimating; over several seeds, the mean and how sure it
is. As a table, CSV, Parquet or JSON; and schedules, job by job.

Policies are compared in pairs: the same seed is the same workload and the same disturbances for all, so the difference
of two policies is taken seed by seed, and its confidence interval is that of the differences."""

from __future__ import annotations

import csv
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from phalanx.cli.simulate_options import pyarrow
from phalanx.cli.simulation import Outcome
from phalanx.simulator.report.page import page
from phalanx.simulator.schedule import Fate, Schedule
from phalanx.simulator.statistic import half_width_95, mean
from phalanx.simulator.sweep import capacity, sizes

# What the table shows: (heading, measure, format).
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
    ("JOBS/S", "jobs_per_s", "{:,.0f}"),
)
NAMING = ("trace", "policy", "estimates")
MACHINE_MADE = {"wall_s", "jobs_per_s"}  # of this machine, not of the schedule

Row = dict[str, Any]


def rows_of(outcomes: Sequence[Outcome]) -> list[Row]:
    """One per trace, policy and way of estimating, in order; compared with the first policy of its trace."""
    groups: dict[tuple[str, ...], list[Row]] = {}
    for outcome in outcomes:
        measures = outcome.measures
        key = (str(outcome.cell.source.trace), outcome.cell.policy, outcome.cell.estimates)
        groups.setdefault(key, []).append(measures)
    first: dict[str, list[Row]] = {}
    rows = []
    for (trace, _, _), of_seeds in groups.items():
        rows.append(_row(of_seeds, first.setdefault(trace, of_seeds)))
    return rows


def _row(of_seeds: Sequence[Row], first: Sequence[Row]) -> Row:
    if len(of_seeds) == 1:
        return dict(of_seeds[0])
    numbers = [name for name, value in of_seeds[0].items() if _is_number(value) and name != "seed"]
    row: Row = {name: of_seeds[0][name] for name in NAMING}
    row["seeds"] = [each["seed"] for each in of_seeds]
    row |= {name: mean([each.get(name, 0.0) for each in of_seeds]) for name in numbers}
    row["ci95"] = {name: half_width_95([each.get(name, 0.0) for each in of_seeds]) for name in numbers}
    if first is not of_seeds:
        row["versus"] = _paired(of_seeds, first, [name for name in numbers if name not in MACHINE_MADE])
    row["interrupted"] = any(each["interrupted"] for each in of_seeds)
    row["schedule_sha256"] = [each["schedule_sha256"] for each in of_seeds]
    return row


def _paired(of_seeds: Sequence[Row], first: Sequence[Row], names: Sequence[str]) -> Row:
    """The mean difference to the first policy, and the half width of its 95 % confidence interval."""
    by_seed = {each["seed"]: each for each in first}
    pairs = [(each, by_seed[each["seed"]]) for each in of_seeds if each["seed"] in by_seed]
    differences = {name: [a.get(name, 0.0) - b.get(name, 0.0) for a, b in pairs] for name in names}
    return {
        "policy": f"{first[0]['policy']} ({first[0]['estimates']})",
        **{name: {"difference": mean(each), "ci95": half_width_95(each)} for name, each in differences.items()},
    }


def table_rows(rows: Sequence[Row]) -> tuple[list[str], list[list[str]]]:
    """Headings and cells; what all rows share (the trace, the estimates) is left out."""
    naming = [name for name in NAMING if name == "policy" or len({row[name] for row in rows}) > 1]
    cells = [
        [str(row[name]) for name in naming] + [_cell(row, name, form) for _, name, form in COLUMNS] for row in rows
    ]
    return [*(name.upper() for name in naming), *(heading for heading, _, _ in COLUMNS)], cells


def _cell(row: Row, name: str, form: str) -> str:
    if name not in row:
        return "-"
    sure = row.get("ci95", {}).get(name)
    return form.format(row[name]) + (f" ±{sure / abs(row[name]):.1%}" if sure and row[name] else "")


def flat(row: Mapping[str, Any]) -> Row:
    """One level: `by_queue`, `by_size`, `ci95` and `versus` become `by_queue.a.mean_wait_s` and the like."""
    found: Row = {}
    for name, value in row.items():
        if isinstance(value, Mapping):
            found |= {f"{name}.{inner}": each for inner, each in flat(value).items()}
        else:
            found[name] = " ".join(map(str, value)) if isinstance(value, list) else value
    return found


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


def write_report(outcomes: Sequence[Outcome], file: Path) -> None:
    """A page; of a policy that was played with several seeds, the first is drawn."""
    drawn: dict[tuple[Path, str, str], Outcome] = {}
    for outcome in outcomes:
        if outcome.picture is not None:
            drawn.setdefault((outcome.cell.source.trace, outcome.cell.policy, outcome.cell.estimates), outcome)
    pictures = [each.picture for each in drawn.values() if each.picture is not None]
    file.write_text(page(pictures, [each.measures for each in drawn.values()], made_by=command()), encoding="utf-8")


def command() -> str:
    return " ".join(["phalanx", *sys.argv[1:]])


def write_schedule(schedule: Schedule, file: Path) -> None:
    """`.swf`: the simulated wait in field 3 and the time it ran in field 4; else CSV."""
    if file.suffix == ".swf":
        _write_swf(schedule, file)
        return
    names = ("job", "queue", "user", "size", "submit_s", "start_s", "end_s", "run_s", "starts", "outcome", "reason")
    with file.open("w", newline="") as out:
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow(names)
        for fate, size in zip(schedule.fates, sizes(schedule), strict=True):
            job = fate.task.job
            times = [_plain(at_s) for at_s in (job.submitted_s, fate.start_s, fate.end_s, fate.ran_s)]
            outcome = fate.outcome.value if fate.outcome else "waiting" if fate.start_s is None else "running"
            writer.writerow(
                [job.id, fate.task.queue, job.user, _plain(size), *times, fate.starts, outcome, fate.reason]
            )


def _write_swf(schedule: Schedule, file: Path) -> None:
    workload = schedule.workload
    with file.open("w") as out:
        out.write(f"; Version: 2.2\n; MaxJobs: {len(schedule.fates)}\n; MaxRecords: {len(schedule.fates)}\n")
        out.write(f"; MaxNodes: {len(workload.nodes)}\n; MaxProcs: {int(capacity(schedule))}\n")
        out.write(f"; Note: simulated by Phalanx, policy {schedule.policy}, {schedule.estimates}\n")
        out.write(f"; Note: from {workload.name}\n")
        for number, (fate, size) in enumerate(zip(schedule.fates, sizes(schedule), strict=True), 1):
            out.write(_swf_line(fate, size, number))


def _swf_line(fate: Fate, size: float, number: int) -> str:
    job, status = fate.task.job, {"succeeded": 1, "failed": 0}.get(fate.outcome or "", -1)
    wait = -1 if fate.start_s is None else _plain(fate.start_s - job.submitted_s)
    run = _plain(fate.ran_s) if fate.end_s is not None else -1
    limit = -1 if job.limit_s is None else _plain(job.limit_s)
    count, name = _plain(size), job.id if job.id.isdecimal() else number
    names = [text if text.isdecimal() else -1 for text in (job.user, job.group, fate.task.queue)]
    user, group, queue = names
    return (
        f"{name} {_plain(job.submitted_s)} {wait} {run} {count} -1 -1 {count} {limit} -1 {status} "
        f"{user} {group} -1 {queue} -1 -1 -1\n"
    )


def _plain(value: float | None) -> str:
    """Without a fraction where there is none; empty for nothing."""
    return "" if value is None else str(int(value)) if value == int(value) else repr(round(value, 6))


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
