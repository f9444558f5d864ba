"""The book in a few numbers. Costs what there are nodes, lines, and jobs that stand in no line: jobs that are alike
are counted together."""

from __future__ import annotations

from collections import Counter

import numpy as np

from phalanx.model.job import Phase
from phalanx.model.status import ClusterStatus
from phalanx.state.cluster import Cluster
from phalanx.state.pending.line import Kind


def cluster_status(cluster: Cluster) -> ClusterStatus:
    columns = cluster.columns
    ready = columns.attributes.ready
    return ClusterStatus(
        waiting=waiting_by_reason(cluster),
        nodes=len(columns),
        ready=int(ready.sum()),
        overfull=int((columns.lowest_free(np.flatnonzero(ready)) < 0).sum()),
        allocatable={name: int(column[ready].sum()) for name, column in columns.allocatable.items()},
        free={name: int(column[ready].sum()) for name, column in columns.free.items()},
    )


def waiting_by_reason(cluster: Cluster) -> Counter[str]:
    """Jobs that wait, by the code of their reason."""
    found: Counter[str] = Counter()
    lines = [line for line in cluster.waiting.lines.values() if line.key.kind == Kind.JOB]
    told = 0
    for line in lines:
        if line.reason is not None:
            found[str(line.reason.code)] += len(line)
            told += len(line)
    if told < len(cluster.jobs):
        found += _single(cluster)
    return found


def _single(cluster: Cluster) -> Counter[str]:
    """Of those whom no line's reason speaks for."""
    found: Counter[str] = Counter()
    line_of = cluster.waiting.line_of
    for name, record in cluster.jobs.items():
        if record.phase is not Phase.QUEUED or ((line := line_of(name)) is not None and line.reason is not None):
            continue
        found[str(record.reason.code) if record.reason is not None else ""] += 1
    return found
