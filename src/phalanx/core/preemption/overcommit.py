"""Nodes that hold more than they have, since room that others are leaving was promised there
(`core.preemption.nomination`).

No draft lays them out: nothing is placed there. Only a search for somebody to give way may look at them, because for it
those who are leaving are gone; so on a cluster of one node a second job need not wait until the first has started."""

from __future__ import annotations

import numpy as np

from phalanx.core.placement.draft import Draft
from phalanx.core.preemption.nomination import LeavingPods
from phalanx.state.cluster import Cluster, is_overcommitted


def with_overcommitted(cluster: Cluster, draft: Draft, others: LeavingPods) -> Draft | None:
    """The draft, and the nodes beside that are overfull no more when `others` have left: shut, until a search takes
    those to be gone. None: there are no such nodes, or this cycle has given away more than the book knows."""
    columns = draft.columns
    if not (cluster.nominated and cluster.leaving and draft.untouched):
        return None
    leaving = [row for row in others.released if columns.attributes.ready[row] and columns.least_free(row) < 0]
    rows = [row for row in leaving if not is_overcommitted(cluster, row, others.released[row])]
    if not rows:
        return None
    free = {name: column.copy() for name, column in columns.free.items()}
    for column in free.values():
        column[rows] = np.maximum(column[rows], 0)  # for only what is not overfull is laid out
    wider = Draft(columns.with_free(free), draft.topologies, draft.score, draft.expected)
    for position in np.isin(wider.rows, rows).nonzero()[0].tolist():
        row = int(wider.rows[position])
        lacking = [(name, -int(column[row])) for name, column in columns.free.items() if column[row] < 0]
        wider.take(position, tuple(lacking), 1)
        wider.shut(position)
    return wider
