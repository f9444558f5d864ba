"""`phalanx jobs`: what runs, what waits, since when, and why."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import replace
from typing import Any

from rich.live import Live

from phalanx.cli.cluster.live_state import look
from phalanx.cli.cluster.target import Scope, Target, connected, find_ledger_of, require_namespace
from phalanx.cli.terminal.output import console, note, print_json, print_json_line, print_table, table
from phalanx.cli.terminal.stopping import until_stopped
from phalanx.cli.views.expected_start import start_record
from phalanx.cli.views.job_view import COLUMNS, GIVES_WAY, JobView, expected_starts, row, views
from phalanx.client.connection import Connection
from phalanx.model.reason import StartForecast

_LOOK_S = 1.0


async def jobs(
    *,
    target: Target | None = None,
    scope: Scope | None = None,
    finished: bool = False,
    watch: bool = False,
    json: bool = False,
) -> None:
    """Show what runs and what waits: since when, and where, or why not.

    Running jobs come first, then the queue in its order. Reasons are of this moment, and the same that the pods'
    conditions and the Jobs' annotations say.

    For example:

        phalanx jobs
        phalanx jobs -A --watch
        phalanx jobs -n team-a --finished
        phalanx jobs --json | jq '.[] | select(.state == "queued") | .reason.text'

    Parameters
    ----------
    finished
        Also Jobs that are over and not deleted yet.
    watch
        Keep showing, until Ctrl-C. With --json: a line for each job, whenever something about it changes.
    json
        Print JSON.
    """
    scope = scope or Scope()
    async with connected(target) as connection:
        if watch:
            if scope.one:
                await require_namespace(connection, scope.one)
            await until_stopped(_watch(connection, scope, finished, json))
            return
        snapshot = await look(connection, scope.one, find_ledger_of(target, os.environ))
        found = views(snapshot, scope.one, finished=finished)
        if scope.one and not found:
            await require_namespace(connection, scope.one)
    expected = expected_starts(found, snapshot)
    if json:
        print_json([{**view.record(), "expected_start": start_record(expected.get(view.id))} for view in found])
    elif found:
        print_table(COLUMNS, rows(found, snapshot.now_s, scope, expected), GIVES_WAY)
    else:
        where = f"namespace {scope.one} (-A shows every one)" if scope.one else "any namespace"
        over = "nor is there one that is over" if finished else "--finished shows those that are over"
        note(f"no job runs or waits in {where}; {over}")


def rows(
    found: list[JobView], now_s: float, scope: Scope, expected: Mapping[str, StartForecast] | None = None
) -> list[list[str]]:
    known = expected or {}
    return [row(view, now_s, with_namespace=scope.all_namespaces, expected=known.get(view.id)) for view in found]


async def _watch(connection: Connection, scope: Scope, finished: bool, json: bool) -> None:
    """A table in place on a terminal; else what changed, line by line."""
    screen = console()
    known: dict[str, JobView] = {}
    with Live(console=screen, auto_refresh=False) if screen.is_terminal and not json else nullcontext() as live:
        while True:
            snapshot = await look(connection, scope.one)
            found = views(snapshot, scope.one, finished=finished)
            if live is not None:
                live.update(table(COLUMNS, rows(found, snapshot.now_s, scope), screen.width, GIVES_WAY), refresh=True)
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
            print("\t".join(row(view, now_s, with_namespace=scope.all_namespaces)), flush=True)
    return now


def _told(view: JobView) -> tuple[dict[str, Any], str]:
    """Return what is said of a job. Reasons hold more than their words, and that is made anew at each look."""
    return view.record(), view.where()
