"""The rank of a request, by which the requests of all request classes are ordered.

Replacements of started gangs come first, by priority, then arrival. All other requests are ordered within their queue
by the queue's order (`core.order.next_job`), and by `rank` if that order uses one: higher priority, then earlier
arrival, then id. In FIFO order the rank is the arrival alone, in MULTIFACTOR order Slurm's sum of factors. In USAGE
order it ranks the jobs of one account.

A started gang with less than its minimum of a role gets the lost pods before any other request. A pod above the minimum
is growth: it comes behind every waiting job of its priority, whenever that job was submitted.

A pod of a job that is started pod by pod arrives when its slot opens (so later than the jobs known by then), not when
its job was submitted: this is kube-scheduler's order, and with it a second pod of an early job waits behind a late
job's first."""

from __future__ import annotations

from phalanx.model.queue import QueueOrder
from phalanx.state.pending.request_class import Kind, QueuedRequest, Rank, RequestClassKey


def rank(
    key: RequestClassKey, entry: QueuedRequest, order: QueueOrder = QueueOrder.PRIORITY, priority: float | None = None
) -> Rank:
    """Return the rank of a request class's request among those of all request classes: lower is sooner. Replacements go
    by priority in any order (rule R5). `priority`: the sum of factors, if the order is MULTIFACTOR."""
    if key.kind == Kind.REPLACEMENT:
        first = -float(key.priority)
    elif order is QueueOrder.FIFO:
        first = 0.0
    elif order is QueueOrder.MULTIFACTOR and priority is not None:
        first = -priority
    else:
        first = -key.priority
    return (first, entry.arrival_s, key.kind, entry.tie)
