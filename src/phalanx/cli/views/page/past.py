"""The page's rows from the ledger: one row for each start of an ended job."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator

from phalanx.cli.views.page.rows import Unit
from phalanx.dashboard.rows import PastRow
from phalanx.ledger.entry import JobEntry, StartEntry, State
from phalanx.ledger.selection import Selection
from phalanx.ledger.store import Ledger

MOST = 20_000  # the most starts in one answer
_PREEMPTOR = re.compile(r"^Preempted: (?:gives way to|was preempted by|is preempted by) (\S+/\S+) ")


def read_past(url: str, unit: Unit, from_s: float, to_s: float) -> list[PastRow]:
    """Return the runs that have ended and overlap this interval, the latest end first. Raises LedgerError."""
    with Ledger.open(url, read_only=True) as ledger:
        found = list(rows(ledger.jobs(Selection(since_s=from_s, until_s=to_s)), unit, from_s, to_s))
    return sorted(found, key=lambda row: -row.end_s)[:MOST]


def backfilled_starts(url: str) -> frozenset[tuple[str, float]]:
    """Return the job and the time of each start that was a backfill and whose job has not ended. Raises LedgerError."""
    with Ledger.open(url, read_only=True) as ledger:
        starts = ((entry.job, entry.starts[-1]) for entry in ledger.live() if entry.starts)
        return frozenset((job, start.at_s) for job, start in starts if start.backfilled)


def rows(entries: Iterable[JobEntry], unit: Unit, from_s: float, to_s: float) -> Iterator[PastRow]:
    for entry in entries:
        for start in entry.starts:
            end_s = start.end_s if start.end_s is not None else entry.end_s
            if end_s is None or end_s < from_s or start.at_s > to_s:
                continue
            yield PastRow(
                job=entry.job,
                user=entry.user,
                queue=entry.queue,
                units=unit.of(start.allocated),
                submitted_s=entry.submit_s,
                start_s=start.at_s,
                end_s=end_s,
                outcome=str(start.state),
                why=_why(entry, start),
                by=preemptor(start),
                places=_places(start, unit),
                backfilled=start.backfilled,
            )


def preemptor(start: StartEntry) -> str:
    """Return the job that preempted this start; empty: no job did."""
    if start.by:
        return start.by
    # Entries of older versions name the preemptor only in the text of the reason.
    found = _PREEMPTOR.match(start.reason) if start.state is State.PREEMPTED else None
    return found[1] if found else ""


def _why(entry: JobEntry, start: StartEntry) -> str:
    last = bool(entry.starts) and start is entry.starts[-1] and start.state is not State.COMPLETED
    text = start.reason.partition(": ")[2]
    if start.state is State.PREEMPTED:
        text = text.partition("): ")[2] or text  # the preemptor has a field of its own
    return text or (entry.cause if last else "")


def _places(start: StartEntry, unit: Unit) -> tuple[tuple[str, float], ...]:
    """Return the amount on each node. All pods of the start count as equal."""
    each = unit.of(start.allocated) / len(start.nodes) if start.nodes else 0
    return tuple((node, round(each * count, 3)) for node, count in sorted(Counter(start.nodes).items()))
