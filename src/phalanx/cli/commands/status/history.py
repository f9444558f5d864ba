"""`phalanx history`: every job that ran, from the ledger, and what users, accounts, queues and days took."""

from __future__ import annotations

import csv
import os
import re
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated, Any, Literal

from cyclopts import Parameter

from phalanx.cli.cluster.ending import in_brief
from phalanx.cli.local.data_directory import default_directory
from phalanx.cli.terminal.output import duration, note, print_json, print_table
from phalanx.dialects.schema.fields import Misread, duration_s
from phalanx.errors import PhalanxError
from phalanx.ledger.entry import JobEntry, StartEntry, State
from phalanx.ledger.selection import Selection
from phalanx.ledger.store import FILE, Ledger, url_of
from phalanx.ledger.usage import By, Sum, total
from phalanx.model.pod import format_amount

COLUMNS = ("JOB", "USER", "QUEUE", "STATE", "SUBMITTED", "WAITED", "TOOK", "ASKED", "NODES", "EXIT", "WHY")
SUMS = ("JOBS", "CPU HOURS", "GPU HOURS", "MEMORY GiB HOURS")
_NODES_SHOWN = 3
_AGO = re.compile(r"\d.*[a-z]")


@Parameter(name="*")
@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """Which jobs are meant."""

    since: str = "7d"
    """From when: 7d, 12h ago; or a date or moment, 2026-01-31, 2026-01-31T18:00 (UTC)."""

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
            since_s=moment(self.since, now_s),
            until_s=moment(self.until, now_s) if self.until else None,
            users=self.user,
            queues=self.queue,
            accounts=self.account,
            states=self.state,
        )


def history(
    *,
    asked: Asked | None = None,
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
        phalanx history --since 2026-01-01 --user ada --csv > ada.csv
        phalanx history --since 30d --by account
        phalanx history --json | jq '.[] | select(.state == "FAILED") | .job'

    Parameters
    ----------
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
    selection = (asked or Asked()).selection(now_s)
    with Ledger.open(ledger or find_ledger(os.environ), read_only=True) as book:
        entries = list(book.jobs(selection))
    if by is not None:
        _print_sums(total(entries, By(by), now_s, selection.since_s, selection.until_s), By(by), json, csv)
    elif json:
        print_json([record(entry, now_s) for entry in entries])
    elif csv:
        _print_csv([flat(record(entry, now_s)) for entry in entries], list(flat(record(_NOBODY, now_s))))
    elif entries:
        print_table(COLUMNS, [row(entry, now_s) for entry in entries])
    else:
        note(f"no job ran or waited since {_iso(selection.since_s)}; --since 365d looks further back")


def find_ledger(environment: Mapping[str, str]) -> str:
    """The URL of the ledger that is meant if none is said. Raises PhalanxError."""
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


def moment(text: str, now_s: float) -> float:
    """Seconds since the epoch of `7d` (so long ago), or a date or moment. Raises PhalanxError."""
    try:
        if _AGO.fullmatch(text) and "T" not in text:
            return now_s - duration_s(text)
        found = datetime.fromisoformat(text)
        return (found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp()
    except (Misread, ValueError, OverflowError):
        raise PhalanxError(f"{text!r} is no time: write for instance 7d, 12h, 2026-01-31 or 2026-01-31T18:00") from None


# --- one job --------------------------------------------------------------------------------------------------------


def row(entry: JobEntry, now_s: float) -> list[str]:
    begun_s = entry.starts[0].at_s if entry.starts else entry.end_s if entry.end_s is not None else now_s
    asked = " ".join(
        f"{name.rpartition('/')[2]}={format_amount(name, amount)}" for name, amount in entry.requested.items()
    )
    code = "" if entry.exit_code is None else str(entry.exit_code)
    return [
        entry.job if entry.number is None else f"{entry.job} ({entry.number})",
        entry.user,
        entry.queue,
        str(entry.state),
        _iso(entry.submit_s) or "",
        duration(begun_s - entry.submit_s),
        duration(entry.elapsed_s(now_s)) if entry.starts else "",
        asked,
        _places(entry.nodes),
        code,
        in_brief(_cause(entry)),
    ]


def _cause(entry: JobEntry) -> str:
    """Why it ended; of one that waits again, why its last start was taken back."""
    return entry.cause or (entry.starts[-1].reason if entry.live and entry.starts else "")


def _places(nodes: Sequence[str]) -> str:
    more = f" and {len(nodes) - _NODES_SHOWN} more" if len(nodes) > _NODES_SHOWN else ""
    return ", ".join(nodes[:_NODES_SHOWN]) + more


def record(entry: JobEntry, now_s: float) -> dict[str, Any]:
    """For `--json` and `--csv`; docs/guide/slurm.md describes it."""
    return {
        "uid": entry.uid,
        "job": entry.job,
        "kind": entry.kind,
        "number": entry.number,
        "user": entry.user,
        "group": entry.group,
        "queue": entry.queue,
        "account": entry.account,
        "qos": entry.qos,
        "priority": entry.priority,
        "state": str(entry.state),
        "waits_for": entry.waits_for,
        "submitted": _iso(entry.submit_s),
        "eligible": _iso(entry.eligible_s),
        "started": _iso(entry.start_s),
        "ended": _iso(entry.end_s),
        "exact_end": entry.exact_end,
        "elapsed_s": round(entry.elapsed_s(now_s), 3),
        "time_limit_s": entry.limit_s,
        "exit_code": entry.exit_code,
        "signal": entry.signal,
        "cause": entry.cause,
        "pods": entry.pods,
        "requested": dict(entry.requested),
        "allocated": dict(entry.allocated),
        "nodes": list(entry.nodes),
        "cpu_hours": round(entry.resource_seconds("cpu", now_s) / 3.6e6, 6),
        "gpu_hours": round(entry.resource_seconds("nvidia.com/gpu", now_s) / 3600, 6),
        "starts": [_start(start) for start in entry.starts],
        "words": dict(entry.words),
    }


def _start(start: StartEntry) -> dict[str, Any]:
    return {
        "at": _iso(start.at_s),
        "ended": _iso(start.end_s),
        "state": str(start.state),
        "nodes": list(start.nodes),
        "allocated": dict(start.allocated),
        "reason": start.reason,
    }


def flat(record: Mapping[str, Any]) -> dict[str, Any]:
    """As a line of CSV: of the starts their number, lists and mappings in one cell."""
    found: dict[str, Any] = {}
    for name, value in record.items():
        match value:
            case Mapping():
                found[name] = " ".join(f"{key}={each}" for key, each in value.items())
            case list():
                found[name] = len(value) if name == "starts" else " ".join(map(str, value))
            case _:
                found[name] = value
    return found


_NOBODY = JobEntry(uid="", job="/")


def _print_csv(rows: Iterable[Mapping[str, Any]], columns: Sequence[str]) -> None:
    writer = csv.DictWriter(sys.stdout, columns, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)


# --- sums -----------------------------------------------------------------------------------------------------------


def _print_sums(sums: Mapping[str, Sum], by: By, json: bool, as_csv: bool) -> None:
    rows = [
        {
            str(by): _iso(float(name))[:10] if by is By.DAY else name,
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


def _iso(at_s: float | None) -> Any:
    if at_s is None:
        return None
    return (datetime.fromtimestamp(0, UTC) + timedelta(seconds=int(at_s))).strftime("%Y-%m-%dT%H:%M:%SZ")
