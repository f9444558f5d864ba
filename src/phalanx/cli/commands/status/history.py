"""`phalanx history`: every job that ran, from the ledger, and what users, accounts, queues and days took."""

from __future__ import annotations

import csv
import os
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Literal

from cyclopts import Parameter

from phalanx.cli.cluster.jobs.finding import recorded
from phalanx.cli.cluster.target import current_namespace
from phalanx.cli.local.data_directory import default_directory
from phalanx.cli.terminal.moments import past_moment
from phalanx.cli.terminal.output import local_time, note, print_json, print_table
from phalanx.cli.views.entry_view import COLUMNS, GIVES_WAY, flat, iso_time, record, row
from phalanx.errors import PhalanxError
from phalanx.ledger.entry import FILE, JobEntry, State, url_of
from phalanx.ledger.selection import Selection
from phalanx.ledger.store import Ledger
from phalanx.ledger.usage import By, Sum, total

SUMS = ("JOBS", "CPU HOURS", "GPU HOURS", "MEMORY GiB HOURS")
_SINCE = "7d"


@Parameter(name="*")
@dataclass(frozen=True, slots=True, kw_only=True)
class HistorySelection:
    """Which jobs are meant."""

    since: str = ""
    """From when: 7d, 12h ago; or a date or moment, 2026-01-31, 2026-01-31T18:00 (the time of this machine, unless it
    ends with Z or +01:00). [default: 7d; with names of jobs, the beginning]"""

    until: str = ""
    """To when, in the same way. [default: now]"""

    user: tuple[str, ...] = ()
    """Only of that user; may be given again."""

    account: tuple[str, ...] = ()
    """Only of that queue and all below it; may be given again."""

    queue: Annotated[tuple[str, ...], Parameter(alias="-q")] = ()
    """Only of that queue itself; may be given again."""

    state: tuple[State, ...] = ()
    """Only jobs in that state; may be given again."""

    def selection(self, now_s: float) -> Selection:
        """Raises PhalanxError."""
        return Selection(
            since_s=past_moment("--since", self.since or _SINCE, now_s),
            until_s=past_moment("--until", self.until, now_s) if self.until else None,
            users=self.user,
            queues=self.queue,
            accounts=self.account,
            states=self.state,
        )


def history(
    *jobs: str,
    asked: HistorySelection | None = None,
    by: Literal["user", "account", "queue", "day"] | None = None,
    json: bool = False,
    csv: bool = False,
    ledger: str | None = None,
) -> None:
    """Show the jobs that ran, waited or ended within a period: those that are over and deleted too.

    The ledger has every job that Phalanx started, whatever it came as: Jobs, gangs, training jobs, pods, scripts.
    `phalanx up` keeps it in its data directory; `phalanx scheduler --ledger URL` in a database.

    For example:

        phalanx history
        phalanx history train sweep/7
        phalanx history --since 2026-01-01 --user ada --csv > ada.csv
        phalanx history --since 30d --by account
        phalanx history --json | jq '.[] | select(.state == "FAILED") | .job'

    Parameters
    ----------
    jobs
        Only jobs of these names, each time that they ran: NAME, NAMESPACE/NAME, or a job number of Slurm. With names,
        `--since` is not limited to seven days.
    by
        What was taken in that period, summed per user, account, queue or day.
    json
        Print JSON: times in RFC 3339, cpu in millicores, everything else in whole units.
    csv
        Print CSV, a line for each job.
    ledger
        The database. [default: $PHALANX_LEDGER, else that beside $KUBECONFIG, else that of the default directory]
    """
    now_s = time.time()
    selection = (asked or HistorySelection()).selection(now_s)
    if jobs and not (asked or HistorySelection()).since:
        selection = replace(selection, since_s=None)
    with Ledger.open(ledger or find_ledger(os.environ), read_only=True) as book:
        entries = list(book.jobs(selection))
        if jobs:
            known = {entry.uid for text in jobs for entry in _named(book, text)}
            entries = [entry for entry in entries if entry.uid in known]
    if by is not None:
        _print_sums(total(entries, By(by), now_s, selection.since_s or 0.0, selection.until_s), By(by), json, csv)
    elif json:
        print_json([record(entry, now_s) for entry in entries])
    elif csv:
        _print_csv([flat(record(entry, now_s)) for entry in entries], list(flat(record(_NOBODY, now_s))))
    elif entries:
        print_table(COLUMNS, [row(entry, now_s) for entry in entries], GIVES_WAY)
    else:
        since = f" since {local_time(selection.since_s)}" if selection.since_s is not None else ""
        note(f"no such job ran or waited{since}; --since 365d looks further back")


def _named(book: Ledger, text: str) -> list[JobEntry]:
    """Raises PhalanxError if the ledger has no job of that name."""
    if not (found := recorded(book, text, current_namespace(os.environ))):
        raise PhalanxError(f"the ledger has no job {text}. `phalanx history --since 365d` lists those of a year.")
    return found


def find_ledger(environment: Mapping[str, str]) -> str:
    """Return the URL of the default ledger. Raises PhalanxError."""
    if url := environment.get("PHALANX_LEDGER", ""):
        return url
    beside = Path(environment.get("KUBECONFIG", "").partition(":")[0] or "/").parent / FILE
    own = default_directory(environment).ledger
    if found := next((file for file in (beside, own) if file.exists()), None):
        return url_of(found)
    raise PhalanxError(
        f"there is no ledger: neither {beside} nor {own} exists. `phalanx up` keeps one in its data directory; "
        "of another scheduler say --ledger URL, the one that it was given."
    )


_NOBODY = JobEntry(uid="", job="/")


def _print_csv(rows: Iterable[Mapping[str, Any]], columns: Sequence[str]) -> None:
    writer = csv.DictWriter(sys.stdout, columns, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)


# --- sums -----------------------------------------------------------------------------------------------------------


def _print_sums(sums: Mapping[str, Sum], by: By, json: bool, as_csv: bool) -> None:
    rows = [
        {
            str(by): iso_time(float(name))[:10] if by is By.DAY else name,
            "jobs": one.jobs,
            "cpu_hours": round(one.cpu_s / 3600, 3),
            "gpu_hours": round(one.gpu_s / 3600, 3),
            "memory_gib_hours": round(one.memory_byte_s / 3600 / 2**30, 3),
        }
        for name, one in sorted(sums.items())
    ]
    columns = (str(by), "jobs", "cpu_hours", "gpu_hours", "memory_gib_hours")
    if json:
        print_json(rows)
    elif as_csv:
        _print_csv(rows, columns)
    elif rows:
        print_table((str(by).upper(), *SUMS), [[str(row[name]) for name in columns] for row in rows])
    else:
        note("no job ran in that period; --since 365d looks further back")
