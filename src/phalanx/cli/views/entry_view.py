"""Convert a job's entry in the ledger to a row of `phalanx history`, a record for `--json`, and a page of `phalanx
explain`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from phalanx.cli.cluster.jobs.attending import in_brief
from phalanx.cli.terminal.output import counted, duration, local_time
from phalanx.client.moment import write_moment
from phalanx.ledger.entry import JobEntry, StartEntry
from phalanx.ledger.selection import Selection
from phalanx.model.pod import format_amount

COLUMNS = ("JOB", "USER", "QUEUE", "STATE", "SUBMITTED", "WAITED", "TOOK", "ASKED", "NODES", "EXIT", "WHY")
GIVES_WAY = ("NODES", "WAITED", "QUEUE", "ASKED", "USER", "TOOK", "SUBMITTED")
_NODES_SHOWN = 3


def title(entry: JobEntry) -> str:
    """Return NAMESPACE/NAME of the job in the form that `phalanx jobs` prints."""
    kind, name = entry.made
    return f"{entry.namespace}/{'pod:' if kind == 'Pod' else ''}{name}"


def row(entry: JobEntry, now_s: float) -> list[str]:
    """Return the cells of the job's row, one for each of `COLUMNS`."""
    begun_s = entry.starts[0].at_s if entry.starts else entry.end_s if entry.end_s is not None else now_s
    asked = _requested(entry)
    code = "" if entry.exit_code is None else str(entry.exit_code)
    return [
        title(entry) if entry.number is None else f"{title(entry)} ({entry.number})",
        entry.user,
        entry.queue,
        str(entry.state),
        local_time(entry.submit_s),
        duration(begun_s - entry.submit_s),
        duration(entry.elapsed_s(now_s)) if entry.starts else "",
        asked,
        _places(entry.nodes),
        code,
        in_brief(_cause(entry)),
    ]


def _cause(entry: JobEntry) -> str:
    """Return the reason why the job ended. For a job that waits again, return the reason why its last run ended."""
    return entry.cause or (entry.starts[-1].reason if entry.live and entry.starts else "")


def _places(nodes: Sequence[str]) -> str:
    more = f" and {len(nodes) - _NODES_SHOWN} more" if len(nodes) > _NODES_SHOWN else ""
    return ", ".join(nodes[:_NODES_SHOWN]) + more


def record(entry: JobEntry, now_s: float) -> dict[str, Any]:
    """Return the record of the job for `--json` and `--csv`; docs/guide/slurm.md describes its fields."""
    return {
        "uid": entry.uid,
        "job": entry.job,
        "kind": entry.made[0],
        "name": entry.made[1],
        "number": entry.number,
        "user": entry.user,
        "group": entry.group,
        "queue": entry.queue,
        "account": entry.account,
        "qos": entry.qos,
        "priority": entry.priority,
        "state": str(entry.state),
        "waits_for": entry.waits_for,
        "submitted": iso_time(entry.submit_s),
        "eligible": iso_time(entry.eligible_s),
        "started": iso_time(entry.start_s),
        "ended": iso_time(entry.end_s),
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
        "reasons": [{"at": iso_time(change.at_s), "code": change.code} for change in entry.reasons],
        "starts": [_start(start) for start in entry.starts],
        "words": dict(entry.words),
    }


def _start(start: StartEntry) -> dict[str, object]:
    return {
        "at": iso_time(start.at_s),
        "ended": iso_time(start.end_s),
        "state": str(start.state),
        "nodes": list(start.nodes),
        "allocated": dict(start.allocated),
        "reason": start.reason,
        "preempted_by": start.by,
        "rule": start.rule,
        "backfilled": start.backfilled,
    }


def flat(record: Mapping[str, object]) -> dict[str, object]:
    """Return the record as a row of CSV. Each list or mapping becomes one cell. For `starts` and `reasons` the cell has
    only their number."""
    found: dict[str, Any] = {}
    for name, value in record.items():
        match value:
            case Mapping():
                found[name] = " ".join(f"{key}={each}" for key, each in value.items())
            case list():
                found[name] = len(value) if name in ("starts", "reasons") else " ".join(map(str, value))
            case _:
                found[name] = value
    return found


_CHANGES_SHOWN = 10


def last_entry(ledger: str, job: str) -> JobEntry | None:
    """Return the latest entry for the job with this id; None if there is none. `ledger`: the URL of the ledger. Raises
    LedgerError."""
    from phalanx.ledger.store import Ledger  # imports a database, which most commands do not need

    with Ledger.open(ledger, read_only=True) as book:
        found = list(book.jobs(Selection(jobs=(job,))))
    return found[-1] if found else None


def changes(entry: JobEntry) -> list[str]:
    """Return one line for each of these events of the job: the last changes of the reason why it waits, the starts by
    backfill, and the preemptions."""
    reasons = [(change.at_s, change.code) for change in entry.reasons]
    preemptions = [
        (start.end_s, f"preempted by {start.by}" + (f" ({start.rule})" if start.rule else ""))
        for start in entry.starts
        if start.by and start.end_s is not None
    ]
    backfills = [(start.at_s, "started by backfill") for start in entry.starts if start.backfilled]
    lines = sorted([*reasons, *preemptions, *backfills])[-_CHANGES_SHOWN:]
    return [f"{local_time(at_s)}  {text}" for at_s, text in lines]


def page(entry: JobEntry, now_s: float) -> str:
    """Return the page about a job that only the ledger has, as text."""
    kind, _ = entry.made
    took = f" after {duration(entry.elapsed_s(now_s))}" if entry.starts and entry.end_s is not None else ""
    when = f", {local_time(entry.end_s)}" if entry.end_s is not None else ""
    code = f", exit code {entry.exit_code}" if entry.exit_code is not None else ""
    lines = [f"{title(entry)}: {entry.state}{took}{when}{code}, queue {entry.queue}"]
    if why := _cause(entry):
        lines.append("  " + why.replace("\n", "\n  "))
    lines += ["", f"{kind} of {entry.user or 'an unknown user'}, {counted(entry.pods, 'pod')}: {_requested(entry)}"]
    lines.append(f"submitted {local_time(entry.submit_s)}")
    for start in entry.starts:
        end = f" to {local_time(start.end_s)}" if start.end_s is not None else ""
        why = f": {start.reason}" if start.reason else ""
        how = ", by backfill" if start.backfilled else ""
        nodes = _places(tuple(dict.fromkeys(start.nodes)))
        lines.append(f"  {start.state} from {local_time(start.at_s)}{end} on {nodes}{how}{why}")
    lines.append("The objects of the job were deleted from the cluster. These facts come from the ledger.")
    return "\n".join(lines)


def _requested(entry: JobEntry) -> str:
    return " ".join(
        f"{name.rpartition('/')[2]}={format_amount(name, value)}" for name, value in entry.requested.items()
    )


def iso_time(at_s: float | None) -> Any:
    """Return a time in RFC 3339 (UTC); None if `at_s` is None."""
    return None if at_s is None else write_moment(at_s)
