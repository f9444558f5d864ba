"""`phalanx jobs`: list running and waiting jobs, with the time since which they run or wait, and the reasons why they
wait."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import Annotated, Any, Literal

from cyclopts import Parameter

from phalanx.cli.cluster.target import Scope, Target, connected, find_ledger_of, require_namespace
from phalanx.cli.terminal.moments import past_moment
from phalanx.cli.terminal.output import console, note, print_json, print_json_line, print_table, table
from phalanx.cli.terminal.stopping import until_stopped
from phalanx.cli.views.job.job_view import JobTableRow, StateName, short_row, table_of, tasks_together
from phalanx.cli.views.job.looking import look_at_rows
from phalanx.client.connection import Connection
from phalanx.errors import PhalanxError

_LOOK_S = 1.0


@Parameter(name="*")
@dataclass(frozen=True, slots=True, kw_only=True)
class JobFilter:
    """The options that select jobs. A job is shown if it matches all given options."""

    user: tuple[str, ...] = ()
    """Only jobs of this user. The option may be repeated."""

    queue: Annotated[tuple[str, ...], Parameter(alias="-q")] = ()
    """Only jobs of this queue. The option may be repeated."""

    state: tuple[StateName, ...] = ()
    """Only jobs in this state. The option may be repeated."""

    since: str = ""
    """Only jobs that were submitted since this time: 10m or 7d (ago), 18:00, 2026-01-31."""

    sort: Literal["name", "user", "queue", "state", "submitted", "priority", "gpus"] | None = None
    """Sort the jobs by this column. [default: running jobs first, then waiting jobs in the order of the queue]"""

    wide: bool = False
    """Also show the user, the GPUs, the requested resources, the remaining time limit, and the expected start."""

    def of(self, found: Sequence[JobTableRow], names: Sequence[str]) -> list[JobTableRow]:
        """Return the rows that the names and filters select, sorted. Raises PhalanxError for a name without a row."""
        for name in names:
            if not any(_is_named(row, name) for row in found):
                raise PhalanxError(
                    f"no job {name} runs or waits in this namespace. `phalanx jobs -A --finished` lists more jobs, and "
                    f"`phalanx explain {name}` also finds deleted jobs."
                )
        return self.sorted(row for row in found if self.holds(row, names))

    def sorted(self, found: Iterable[JobTableRow]) -> list[JobTableRow]:
        """Return the jobs in the order of --sort."""
        key = None if self.sort is None else _SORTS[self.sort]
        return list(found) if key is None else sorted(found, key=key)

    def holds(self, row: JobTableRow, names: Sequence[str]) -> bool:
        """Return True if the names and the options select the row's job."""
        return (
            (not names or any(_is_named(row, name) for name in names))
            and (not self.user or row.user in self.user)
            and (not self.queue or row.queue in self.queue)
            and (not self.state or row.state in self.state)
            and (not self.since or row.submitted_s >= past_moment("--since", self.since, time.time()))
        )


_SORTS: Mapping[str, Callable[[JobTableRow], tuple[Any, ...]]] = {
    "name": lambda row: (row.namespace, row.name),
    "user": lambda row: (row.user, row.submitted_s),
    "queue": lambda row: (row.queue, row.submitted_s),
    "state": lambda row: (row.state, row.submitted_s),
    "submitted": lambda row: (row.submitted_s, row.id),
    "priority": lambda row: (-row.priority, row.submitted_s),
    "gpus": lambda row: (-row.gpus, row.submitted_s),
}


def _is_named(row: JobTableRow, name: str) -> bool:
    """Return True if `name` selects the row's job. It may be the name of the job, the name of its array, or
    ARRAY/INDEX, with or without the namespace before it."""
    own = {row.name, row.array, f"{row.array}/{row.task}"} - {""}
    return name in {*own, *(f"{row.namespace}/{each}" for each in own)}


async def jobs(
    *names: str,
    shown: JobFilter | None = None,
    target: Target | None = None,
    scope: Scope | None = None,
    finished: bool = False,
    watch: bool = False,
    json: bool = False,
) -> None:
    """List running and waiting jobs: since when, and on which nodes they run or why they wait.

    Running jobs come first, then waiting jobs in the order of the queue. The reasons are current. They are the same as
    in the pods' conditions and the Jobs' annotations. The column PODS has the number of pods with a node and the number
    of all pods of the job. If fewer pods than all must start together, their number follows: 7/15 (min 4). Waiting
    tasks of an array share one line, and so do ended tasks; with --json each task has its own entry.

    For example:

        phalanx jobs
        phalanx jobs train sweep/7
        phalanx jobs --user ada --state queued --sort submitted
        phalanx jobs --wide --since 1d
        phalanx jobs -A --watch
        phalanx jobs -n team-a --finished
        phalanx jobs --json | jq '.[] | select(.state == "queued") | .reason.text'

    Parameters
    ----------
    names
        Only jobs with these names: NAME, NAMESPACE/NAME, ARRAY or ARRAY/INDEX.
    finished
        Also list ended Jobs that are not deleted yet.
    watch
        Keep the list up to date, until Ctrl-C. With --json: print a line for a job whenever the job changes.
    json
        Print JSON.
    """
    scope, shown = scope or Scope(), shown or JobFilter()
    async with connected(target) as connection:
        if watch:
            if scope.one:
                await require_namespace(connection, scope.one)
            await until_stopped(_watch(connection, scope, finished, json, shown, names))
            return
        ledger = find_ledger_of(target, os.environ)
        now_s, known = await look_at_rows(connection, scope.one, ledger, finished=finished, recorded=json)
        found = shown.of(known, names)
        if scope.one and not found:
            await require_namespace(connection, scope.one)
    if json:
        print_json([row.record for row in found])
    elif found:
        print_table(*laid_out(tasks_together(found), now_s, scope, shown))
    else:
        where = f"namespace {scope.one} (-A lists all namespaces)" if scope.one else "any namespace"
        over = "no ended job is listed there either" if finished else "--finished also lists ended jobs"
        note(f"no job runs or waits in {where}; {over}")


def laid_out(
    found: Sequence[JobTableRow], now_s: float, scope: Scope, shown: JobFilter
) -> tuple[Sequence[str], list[list[str]], Sequence[str]]:
    """Return the columns of the table, its cells, and the columns that may be left out on a narrow terminal."""
    return table_of(found, now_s, with_namespace=scope.all_namespaces, wide=shown.wide)


async def _watch(
    connection: Connection, scope: Scope, finished: bool, json: bool, shown: JobFilter, names: Sequence[str]
) -> None:
    """Show the jobs until cancelled. On a terminal, redraw the table in place; otherwise print a line for each changed
    job."""
    from rich.live import Live

    screen = console()
    known: dict[str, JobTableRow] = {}
    with Live(console=screen, auto_refresh=False) if screen.is_terminal and not json else nullcontext() as live:
        while True:
            now_s, seen = await look_at_rows(connection, scope.one, finished=finished, recorded=json, foreseen=False)
            found = shown.sorted(replace(row, expected="") for row in seen if shown.holds(row, names))
            if live is not None:
                columns, lines, gives_way = laid_out(tasks_together(found), now_s, scope, shown)
                live.update(table(columns, lines, screen.width, gives_way), refresh=True)
            else:
                known = print_changes(found, known, now_s, scope, json)
            await asyncio.sleep(_LOOK_S)


def print_changes(
    found: list[JobTableRow], known: dict[str, JobTableRow], now_s: float, scope: Scope, json: bool
) -> dict[str, JobTableRow]:
    """Print the jobs that changed since `known`, and return the present rows by job id. A deleted job is printed once
    more, with the state `gone`."""
    now = {row.id: row for row in found}
    changed = [row for job, row in now.items() if job not in known or _told(known[job]) != _told(row)]
    for row in [*changed, *(_gone(row) for job, row in known.items() if job not in now)]:
        if json:
            print_json_line(row.record)
        else:
            print("\t".join(short_row(row, now_s, with_namespace=scope.all_namespaces)), flush=True)
    return now


def _gone(row: JobTableRow) -> JobTableRow:
    record = {**row.record, "state": "gone", "reason": None, "message": ""}
    return replace(row, state="gone", where="", record=record)


def _told(row: JobTableRow) -> JobTableRow:
    """Return the row without its expected start. The expected start changes all the time, so it must not count as a
    change of the row."""
    return replace(row, record={**row.record, "expected_start": None})
