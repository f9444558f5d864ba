"""Build the row of a queue from a snapshot, without side effects: its place in the tree, its quota, its usage, and the
numbers of its jobs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from math import isfinite
from typing import Any

from phalanx.cli.cluster.live_state.cluster_snapshot import Snapshot
from phalanx.cli.cluster.numbers.fetching import standing_of
from phalanx.client.connection import Object
from phalanx.model.job import Phase
from phalanx.model.pod import PODS, Amount, format_amount
from phalanx.model.queue import QueueState
from phalanx.model.status import QueueStatus, ResourceUsage
from phalanx.report.status import queue_statuses
from phalanx.state.cluster import JobRecord
from phalanx.state.queues.quota import Key

COLUMNS = ("QUEUE", "RUNNING", "PENDING", "SHARE", "STATE", "USED / GUARANTEED / LIMIT")
GIVES_WAY = ("SHARE",)


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueView:
    """The row of a queue. `gang`: False if the pods of a job in this queue start one by one instead of together.
    `exists`: False if jobs name the queue, but it does not exist. `wrong`: the error in the settings of the queue; ""
    if there is none."""

    standing: QueueStatus
    gang: bool
    exists: bool
    wrong: str

    @property
    def state(self) -> str:
        """Return the text of the column STATE."""
        if not self.exists:
            return "does not exist"
        if self.wrong:
            return f"misconfigured: {self.wrong}"
        above = self.standing.held_by
        state = str(self.standing.state)
        if self.standing.state is QueueState.OPEN and above:
            state = f"open, but {above} above it is not"
        return state if self.gang else f"{state}, pod by pod"

    def record(self) -> dict[str, Any]:
        """Return the record of the queue for `--json`; docs/guide/command-line.md describes its fields."""
        standing = self.standing
        return {
            "queue": standing.queue,
            "parent": standing.parent,
            "exists": self.exists,
            "gang": self.gang,
            "state": str(standing.state),
            "wrong": self.wrong,
            "running": standing.running,
            "pending": standing.pending,
            "share": standing.share if isfinite(standing.share) else None,
            "usage": [
                {
                    "flavor": one.flavor,
                    "resource": one.resource,
                    "used": _number(one.used),
                    "guaranteed": _number(one.guaranteed),
                    "limit": _number(one.limit),
                    "borrowed": _number(one.borrowed),
                    "lendable": _number(one.lendable),
                }
                for one in standing.usage
            ],
        }


def _number(amount: Amount | None) -> float | None:
    """Return the amount as a number of JSON, which has no fractions. Parts of GPUs have amounts such as 1/2."""
    return float(amount) if isinstance(amount, Fraction) else amount


def views(snapshot: Snapshot) -> list[QueueView]:
    """Return the rows of the queue tree, parents before children. After them come rows for missing queues that jobs
    name."""
    found = [
        QueueView(
            standing=standing,
            gang=snapshot.cluster.queues[standing.queue].gang,
            exists=True,
            wrong=snapshot.wrong.get(standing.queue, "") or standing.fault,
        )
        for standing in queue_statuses(snapshot.cluster, places=0)
    ]
    return [*found, *_unknown(snapshot)]


def told_view(summary: Object) -> QueueView:
    """Return the row of a queue from its published summary, which every user of the cluster may read."""
    standing = standing_of(summary)
    return QueueView(standing=standing, gang=True, exists=True, wrong=standing.fault)


def table_of(found: Iterable[QueueView]) -> dict[str, object]:
    """Return the table of `phalanx queues`: `columns`; `gives_way`, the columns that may be left out on a narrow
    terminal; and `items`, for each queue its `cells` and its `record` for `--json`."""
    items = [{"cells": row(view), "record": view.record()} for view in found]
    return {"columns": COLUMNS, "gives_way": GIVES_WAY, "items": items}


def row(view: QueueView) -> list[str]:
    """Return the cells of the queue's row, one for each of `COLUMNS`."""
    standing = view.standing
    share = f"{standing.share:.2f}" if isfinite(standing.share) else "beyond all"
    return [
        "  " * standing.depth + standing.queue,
        *(str(standing.running), str(standing.pending), share, view.state),
        "; ".join(_amounts(one) for one in standing.usage if _worth_showing(one)) or "nothing",
    ]


def _amounts(one: ResourceUsage) -> str:
    """Return usage, guarantee and limit in the form `cpu 4/8/16`; for a flavor in the form `cpu (spot) 4/8/-`. If the
    resource has neither guarantee nor limit, return only the usage."""
    bounds = [one.guaranteed, one.limit]
    parts = [format_amount(one.resource, one.used)]
    if any(bound is not None for bound in bounds):
        parts += ["-" if bound is None else format_amount(one.resource, bound) for bound in bounds]
    return f"{one.resource}{f' ({one.flavor})' if one.flavor else ''} {'/'.join(parts)}"


def _worth_showing(one: ResourceUsage) -> bool:
    return one.resource != PODS or one.guaranteed is not None or one.limit is not None


def _unknown(snapshot: Snapshot) -> Iterator[QueueView]:
    cluster = snapshot.cluster
    names = {record.queue for record in cluster.jobs.values()}
    for name in sorted(names - cluster.queues.keys()):
        records = [record for record in cluster.jobs.values() if record.queue == name]
        pending = sum(record.phase is Phase.QUEUED for record in records)
        standing = QueueStatus(
            queue=name,
            parent="",
            depth=0,
            pending=pending,
            running=len(records) - pending,
            share=0.0,
            usage=tuple(_charged(records)),
            state=QueueState.OPEN,
            state_since_s=0.0,
            held_by="",
            fault="",
            first=(),
        )
        yield QueueView(standing=standing, gang=True, exists=False, wrong="")


def _charged(records: Iterable[JobRecord]) -> Iterator[ResourceUsage]:
    """Yield the usage of running jobs whose queue was deleted."""
    used = defaultdict[Key, Amount](int)
    for record in records:
        for key, amount in record.charge.cost if record.charge else ():
            used[key] += amount
    for flavor, resource in sorted(used):
        yield ResourceUsage(flavor=flavor, resource=resource, used=used[flavor, resource])
