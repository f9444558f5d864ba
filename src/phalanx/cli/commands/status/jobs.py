"""`phalanx jobs`: what runs, what waits, since when, and why."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import Annotated, Any, Literal

from cyclopts import Parameter
from rich.live import Live

from phalanx.cli.cluster.live_state import look
from phalanx.cli.cluster.target import Scope, Target, connected, find_ledger_of, require_namespace
from phalanx.cli.terminal.moments import past_moment
from phalanx.cli.terminal.output import console, note, print_json, print_json_line, print_table, table
from phalanx.cli.terminal.stopping import until_stopped
from phalanx.cli.views.expected_start import start_record
from phalanx.cli.views.job_row import COLUMNS, GIVES_WAY, WIDE, WIDE_GIVES_WAY, short_row, wide_row
from phalanx.cli.views.job_view import JobView, expected_starts, tasks_together, views
from phalanx.client.connection import Connection
from phalanx.errors import PhalanxError
from phalanx.model.reason import StartForecast

_LOOK_S = 1.0
State = Literal["queued", "promised", "starting", "running", "stuck", "stopping", "complete", "failed"]


@Parameter(name="*")
@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """Which jobs are shown. All of these must hold."""

    user: tuple[str, ...] = ()
    """Jobs of that user; may be given again."""

    queue: Annotated[tuple[str, ...], Parameter(alias="-q")] = ()
    """Jobs of that queue; may be given again."""

    state: tuple[State, ...] = ()
    """Jobs in that state; may be given again."""

    since: str = ""
    """Jobs that were submitted since then: 10m or 7d (ago), 18:00, 2026-01-31."""

    sort: Literal["name", "user", "queue", "state", "submitted", "priority", "gpus"] | None = None
    """Order the jobs by that. [default: what runs first, then the queue in its order]"""

    wide: bool = False
    """Also show user, GPUs, what is requested, how long it may still run, and the expected start."""

    def of(self, found: Sequence[JobView], names: Sequence[str]) -> list[JobView]:
        """Return the jobs that are meant, in their order. Raises PhalanxError for a name that none of them has."""
        for name in names:
            if not any(_is_named(view, name) for view in found):
                raise PhalanxError(
                    f"no job {name} runs or waits there. `phalanx jobs -A --finished` shows more, and "
                    f"`phalanx explain {name}` knows jobs that are gone."
                )
        return self.sorted(view for view in found if self.holds(view, names))

    def sorted(self, found: Iterable[JobView]) -> list[JobView]:
        """Return the jobs in the order that is asked for."""
        key = None if self.sort is None else _SORTS[self.sort]
        return list(found) if key is None else sorted(found, key=key)

    def holds(self, view: JobView, names: Sequence[str]) -> bool:
        """Return True for a job that is meant."""
        return (
            (not names or any(_is_named(view, name) for name in names))
            and (not self.user or view.user in self.user)
            and (not self.queue or view.queue in self.queue)
            and (not self.state or view.state in self.state)
            and (not self.since or view.submitted_s >= past_moment("--since", self.since, time.time()))
        )


_SORTS: Mapping[str, Callable[[JobView], tuple[Any, ...]]] = {
    "name": lambda view: (view.namespace, view.name),
    "user": lambda view: (view.user, view.submitted_s),
    "queue": lambda view: (view.queue, view.submitted_s),
    "state": lambda view: (view.state, view.submitted_s),
    "submitted": lambda view: (view.submitted_s, view.id),
    "priority": lambda view: (-view.priority, view.submitted_s),
    "gpus": lambda view: (-view.gpus, view.submitted_s),
}


def _is_named(view: JobView, name: str) -> bool:
    """Return True if a user may call the job so: by its name, its array, or ARRAY/INDEX; with its namespace or not."""
    own = {view.name, view.array, f"{view.array}/{view.task}"} - {""}
    return name in {*own, *(f"{view.namespace}/{each}" for each in own)}


async def jobs(
    *names: str,
    shown: Shown | None = None,
    target: Target | None = None,
    scope: Scope | None = None,
    finished: bool = False,
    watch: bool = False,
    json: bool = False,
) -> None:
    """Show what runs and what waits: since when, and where, or why not.

    Running jobs come first, then the queue in its order. Reasons are of this moment, and the same that the pods'
    conditions and the Jobs' annotations say. Tasks of an array that wait, or are over, are one line; not with --json.

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
        Only jobs of these names: NAME, NAMESPACE/NAME, ARRAY or ARRAY/INDEX.
    finished
        Also Jobs that are over and not deleted yet.
    watch
        Keep showing, until Ctrl-C. With --json: a line for each job, whenever something about it changes.
    json
        Print JSON.
    """
    scope, shown = scope or Scope(), shown or Shown()
    async with connected(target) as connection:
        if watch:
            if scope.one:
                await require_namespace(connection, scope.one)
            await until_stopped(_watch(connection, scope, finished, json, shown, names))
            return
        snapshot = await look(connection, scope.one, find_ledger_of(target, os.environ))
        found = shown.of(views(snapshot, scope.one, finished=finished), names)
        if scope.one and not found:
            await require_namespace(connection, scope.one)
    expected = expected_starts(found, snapshot)
    columns, gives_way = (WIDE, WIDE_GIVES_WAY) if shown.wide else (COLUMNS, GIVES_WAY)
    if json:
        print_json([{**view.record(), "expected_start": start_record(expected.get(view.id))} for view in found])
    elif found:
        lines = rows(tasks_together(found), snapshot.now_s, scope, expected, wide=shown.wide)
        print_table(columns, lines, gives_way)
    else:
        where = f"namespace {scope.one} (-A shows every one)" if scope.one else "any namespace"
        over = "nor is there one that is over" if finished else "--finished shows those that are over"
        note(f"no job runs or waits in {where}; {over}")


def rows(
    found: list[JobView],
    now_s: float,
    scope: Scope,
    expected: Mapping[str, StartForecast] | None = None,
    *,
    wide: bool = False,
) -> list[list[str]]:
    known, row = expected or {}, wide_row if wide else short_row
    return [row(view, now_s, with_namespace=scope.all_namespaces, expected=known.get(view.id)) for view in found]


async def _watch(
    connection: Connection, scope: Scope, finished: bool, json: bool, shown: Shown, names: Sequence[str]
) -> None:
    """A table in place on a terminal; else what changed, line by line."""
    screen = console()
    known: dict[str, JobView] = {}
    with Live(console=screen, auto_refresh=False) if screen.is_terminal and not json else nullcontext() as live:
        while True:
            snapshot = await look(connection, scope.one)
            seen = views(snapshot, scope.one, finished=finished)
            found = shown.sorted(view for view in seen if shown.holds(view, names))
            if live is not None:
                lines = rows(tasks_together(found), snapshot.now_s, scope, wide=shown.wide)
                columns, gives_way = (WIDE, WIDE_GIVES_WAY) if shown.wide else (COLUMNS, GIVES_WAY)
                live.update(table(columns, lines, screen.width, gives_way), refresh=True)
            else:
                known = print_changes(found, known, snapshot.now_s, scope, json)
            await asyncio.sleep(_LOOK_S)


def print_changes(
    found: list[JobView], known: dict[str, JobView], now_s: float, scope: Scope, json: bool
) -> dict[str, JobView]:
    """Print what changed among the jobs. Jobs that went are told once, as gone."""
    now = {view.id: view for view in found}
    gone = [replace(view, state="gone", reason=None, message="") for job, view in known.items() if job not in now]
    changed = [view for job, view in now.items() if job not in known or _told(known[job]) != _told(view)]
    for view in [*changed, *gone]:
        if json:
            print_json_line(view.record())
        else:
            print("\t".join(short_row(view, now_s, with_namespace=scope.all_namespaces)), flush=True)
    return now


def _told(view: JobView) -> tuple[dict[str, Any], str]:
    """Return the printed facts of a job, to detect changes. Only the text of a reason is compared, because its numbers
    are computed again at each refresh."""
    return view.record(), view.where()
