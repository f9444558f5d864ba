"""The cluster in a few numbers agrees with the book, job by job."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from phalanx.core.fold.fold import fold
from phalanx.loop import step
from phalanx.model.event import NodeGroupSeen, NodesComing, NodeSeen, QueueSeen, Submitted
from phalanx.model.job import Phase
from phalanx.model.node import NodeGroup
from phalanx.model.policy import Policy
from phalanx.model.queue import Queue
from phalanx.model.reason import Reason, ReasonCode
from phalanx.report.status import cluster_status
from phalanx.state.cluster import Cluster
from tests.core.builders import job, node, role


class Nowhere:
    def apply(self, plan: object) -> None: ...


def test_who_waits_is_counted_by_reason() -> None:
    book = Cluster()
    held = Reason(code=ReasonCode.HELD, text="held")
    jobs = [
        *(job(f"alike-{number}", role("w", 4, cpu=1000), queue="q") for number in range(5)),
        job("huge", role("w", 1, cpu=99_000), queue="q"),
        job("lost", role("w", 1, cpu=1000), queue="nowhere"),
        replace(job("held", role("w", 1, cpu=1000), queue="q"), blocked=held),
    ]
    told = [
        QueueSeen(Queue(name="q")),
        NodeSeen(node("a", cpu=8000)),
        NodeSeen(replace(node("b", cpu=8000), ready=False)),
    ]
    step(book, [*told, *map(Submitted, jobs)], Policy(), 100.0, Nowhere())
    found = cluster_status(book)
    one_by_one = Counter(
        str(reason.code) if (reason := book.reason(name)) is not None else ""
        for name, record in book.jobs.items()
        if record.phase is Phase.QUEUED
    )
    assert found.waiting == one_by_one == {"NoRoom": 3, "NeverFits": 1, "QueueUnknown": 1, "Held": 1}
    assert (found.nodes, found.ready) == (2, 1)
    assert (found.allocatable["cpu"], found.free["cpu"]) == (8000, 0)


def test_requested_nodes_are_no_nodes_before_they_exist() -> None:
    cluster = Cluster()
    group = NodeGroup(name="g", template=node("g", cpu=4000))
    fold(cluster, [NodeGroupSeen(group), NodesComing("g", ("g-1", "g-2"), 0.0, 60.0, 90.0)])
    assert (cluster_status(cluster).nodes, cluster_status(cluster).ready) == (0, 0)
    fold(cluster, [NodeSeen(replace(node("g-1", cpu=4000), group="g", ready=False))])
    assert (cluster_status(cluster).nodes, cluster_status(cluster).ready) == (1, 0)
