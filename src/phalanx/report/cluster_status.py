"""Compute the cluster's status in a few numbers.

The cost grows with the nodes, the request classes, and the jobs that are in no request class. Jobs of one request class
are counted together.
"""

from __future__ import annotations

from collections import Counter

import numpy as np

from phalanx.model.job import Phase
from phalanx.model.status import ClusterStatus
from phalanx.state.cluster import Cluster
from phalanx.state.pending.request_class import Kind, Request


def cluster_status(cluster: Cluster) -> ClusterStatus:
    """Return the status of the cluster."""
    columns = cluster.columns
    ready = columns.attributes.ready
    return ClusterStatus(
        waiting=waiting_by_reason(cluster),
        nodes=len(columns) - sum(not coming.is_seen for coming in columns.groups.coming.values()),
        ready=int(ready.sum()),
        overfull=int((columns.lowest_free(np.flatnonzero(ready)) < 0).sum()),
        allocatable={name: int(column[ready].sum()) for name, column in columns.allocatable.items()},
        free={name: int(column[ready].sum()) for name, column in columns.free.items()},
    )


def waiting_by_reason(cluster: Cluster) -> Counter[str]:
    """Return the number of pending jobs by the code of their reason; the empty code for a job without a reason yet."""
    found: Counter[str] = Counter()
    pending = cluster.pending
    told = 0
    for request_class in pending.request_classes.values():
        if request_class.key.kind == Kind.JOB and (reason := pending.reason_of(request_class)) is not None:
            found[str(reason.code)] += len(request_class)
            told += len(request_class)
    if told < len(cluster.jobs):
        found += _single(cluster)
    return found


def _single(cluster: Cluster) -> Counter[str]:
    """Count the pending jobs that are in no request class, or in a class without a reason, one by one."""
    found: Counter[str] = Counter()
    pending = cluster.pending
    for name, record in cluster.jobs.items():
        if record.phase is not Phase.QUEUED:
            continue
        request_class = pending.request_class_of.get(Request(name))
        if request_class is None or pending.reason_of(request_class) is None:
            found[str(record.reason.code) if record.reason is not None else ""] += 1
    return found
