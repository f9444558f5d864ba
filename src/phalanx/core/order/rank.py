"""The rank of a request: how requests of all cells compare.

Replacements of started gangs come before all else, by priority, then arrival. All other requests contend in their
queue, by the queue's order (`core.order.next_job`), and by `rank` where that asks for one: higher priority, then
earlier arrival, then id; in FIFO order arrival alone; in MULTIFACTOR order Slurm's sum of factors. In USAGE order this
ranks the jobs of one account.

A started gang that has less than its minimum of a role gets what it lost before anybody gets anything. Above that a
pod is growth: it comes behind every job of its priority that waits, whenever that was submitted.

A pod of a job that is started pod by pod arrives when its slot opens (so later than the jobs known by then), not when
its job was submitted: this is kube-scheduler's order, and with it a second pod of an early job waits behind a late
job's first."""

from __future__ import annotations

from phalanx.model.queue import QueueOrder
from phalanx.state.pending.cell_queue import CellKey, Kind, QueuedRequest, Rank


def rank(
    key: CellKey, entry: QueuedRequest, order: QueueOrder = QueueOrder.PRIORITY, priority: float | None = None
) -> Rank:
    """Return the rank of a cell's request among those of all cells: lower is sooner. Replacements go by priority in any
    order (rule R5). `priority`: what the factors come to, where they decide."""
    if key.kind == Kind.REPLACEMENT:
        first = -float(key.priority)
    elif order is QueueOrder.FIFO:
        first = 0.0
    elif order is QueueOrder.MULTIFACTOR and priority is not None:
        first = -priority
    else:
        first = -key.priority
    return (first, entry.arrival_s, key.kind, entry.tie)
