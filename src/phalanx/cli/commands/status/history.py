"""`phalanx history`: list the jobs in the ledger, or sum the consumption of users, accounts, queues or days."""

from __future__ import annotations

import csv
import os
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Literal

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
    """The options that select jobs of the ledger."""

    since: str = ""
    """The start of the period: 7d or 12h (ago), or a date or time, 2026-01-31, 2026-01-31T18:00 (in the time zone of
    this machine, unless it ends with Z or +01:00). [default: 7d; with names of jobs, the beginning of the ledger]"""

    until: str = ""
    """The end of the period, written as for --since. [default: now]"""

    user: tuple[str, ...] = ()
    """Only jobs of this user. The option may be repeated."""

    account: tuple[str, ...] = ()
    """Only jobs of this queue and of all queues below it. The option may be repeated."""

    queue: Annotated[tuple[str, ...], Parameter(alias="-q")] = ()
    """Only jobs of this queue itself. The option may be repeated."""

    state: tuple[State, ...] = ()
    """Only jobs in this state. The option may be repeated."""

    def selection(self, now_s: float) -> Selection:
        """Return the selection that the options describe. Raises PhalanxError for an invalid time."""
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
    """List the jobs that ran, waited or ended within a period, also jobs that are deleted.

    The ledger, the accounting database of Phalanx, has every job that Phalanx started, of all kinds: Jobs, gangs,
    training jobs, pods, Slurm scripts. `phalanx up` keeps the ledger in its data directory, and `phalanx scheduler
    --ledger URL` keeps it in a database.

    For example:

        phalanx history
        phalanx history train sweep/7
        phalanx history --since 2026-01-01 --user ada --csv > ada.csv
        phalanx history --since 30d --by account
        phalanx history --json | jq '.[] | select(.state == "FAILED") | .job'

    Parameters
    ----------
    jobs
        Only jobs with these names, with each of their runs: NAME, NAMESPACE/NAME, or a job number of Slurm. With names,
        the period is not limited to seven days.
    by
        Print what jobs consumed in the period, summed for each user, account, queue or day.
    json
        Print JSON, with times in RFC 3339, cpu in millicores and all other amounts in whole units (bytes, GPUs).
    csv
        Print CSV with a line for each job.
    ledger
        The database. [default: $PHALANX_LEDGER, else the ledger beside the file $KUBECONFIG, else the ledger in the
        default data directory]
    """
    now_s = time.time()
    selection = (asked or HistorySelection()).selection(now_s)
    if jobs and not (asked or HistorySelection()).since:
        selection = replace(selection, since_s=None)
    with Ledger.open(ledger or find_ledger(os.environ), read_only=True) as opened:
        entries = list(opened.jobs(selection))
        if jobs:
            known = {entry.uid for text in jobs for entry in _named(opened, text)}
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
        note(f"no such job ran or waited{since}; --since 365d searches a longer period")


def _named(ledger: Ledger, text: str) -> list[JobEntry]:
    """Return the ledger's entries for the job with the name `text`. Raises PhalanxError if the ledger has no job with
    this name."""
    if not (found := recorded(ledger, text, current_namespace(os.environ))):
        raise PhalanxError(
            f"the ledger has no job {text}. `phalanx history --since 365d` lists the jobs of the last year."
        )
    return found


def find_ledger(environment: Mapping[str, str]) -> str:
    """Return the URL of the default ledger. Raises PhalanxError if there is none."""
    if url := environment.get("PHALANX_LEDGER", ""):
        return url
    beside = Path(environment.get("KUBECONFIG", "").partition(":")[0] or "/").parent / FILE
    own = default_directory(environment).ledger
    if found := next((file for file in (beside, own) if file.exists()), None):
        return url_of(found)
    raise PhalanxError(
        f"there is no ledger: neither {beside} nor {own} exists. `phalanx up` keeps one in its data directory; "
        "for another scheduler, name its database with --ledger URL."
    )


_NOBODY = JobEntry(uid="", job="/")


def _print_csv(rows: Iterable[Mapping[str, object]], columns: Sequence[str]) -> None:
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
        note("no job ran in this period; --since 365d searches a longer period")
