"""Which nodes of groups count as empty: pods of DaemonSets do not keep a node, and annotations of autoscalers do."""

from __future__ import annotations

from dataclasses import replace

import pytest

from phalanx.loop import step
from phalanx.model.event import (
    Event,
    Finished,
    NodeGroupSeen,
    NodesComing,
    NodeSeen,
    NodesKept,
    Occupied,
    QueueSeen,
    Submitted,
    Vacated,
)
from phalanx.model.node import Node, NodeGroup
from phalanx.model.plan import Plan, ReleaseNodes
from phalanx.model.pod import amounts
from phalanx.model.policy import Policy
from phalanx.model.queue import Queue
from phalanx.scaling import cycle
from phalanx.state.cluster import Cluster
from tests.core.builders import job, role

NODE = Node(name="n", allocatable=amounts({"cpu": 4000, "pods": 110}), group="g")
GROUP = NodeGroup(name="g", template=replace(NODE, group=""), idle_s=600.0)
DAEMON = Occupied("daemon", "n", amounts({"cpu": 100, "pods": 1}), resident=True)
THEIRS = Occupied("theirs", "n", amounts({"cpu": 100, "pods": 1}))


class Nowhere:
    def apply(self, plan: Plan) -> None:
        pass


@pytest.mark.parametrize(
    ("events", "released"),
    [
        ([NodeSeen(NODE), DAEMON], True),
        ([NodeSeen(NODE), DAEMON, THEIRS], False),
        ([NodeSeen(NODE), THEIRS, DAEMON, Vacated("theirs")], True),
        ([NodeSeen(NODE), DAEMON, Vacated("daemon"), THEIRS], False),
        ([NodeSeen(replace(NODE, protected=True))], False),
    ],
)
def test_an_empty_node_is_released(events: list[Event], released: bool) -> None:
    cluster, policy = Cluster(), Policy()
    first = step(cluster, [NodeGroupSeen(GROUP), *events], policy, 1000.0, Nowhere())
    assert not [each for each in first.actions if isinstance(each, ReleaseNodes)]
    later = step(cluster, [], policy, 1601.0, Nowhere())
    assert bool([each for each in later.actions if isinstance(each, ReleaseNodes)]) is released


def test_a_group_whose_provider_removes_nodes_itself_releases_none_and_wakes_nobody() -> None:
    cluster = Cluster()
    seen = [NodeGroupSeen(replace(GROUP, idle_s=float("inf"))), NodeSeen(NODE)]
    first = step(cluster, seen, Policy(), 1000.0, Nowhere())
    assert (first.actions, first.wake_s) == ((), None)
    assert step(cluster, [], Policy(), 1e9, Nowhere()).actions == ()


@pytest.mark.parametrize("cordoned", [False, True])
def test_a_node_that_its_provider_keeps_accepts_pods_as_before(cordoned: bool) -> None:
    cluster, policy, found = Cluster(), Policy(), replace(NODE, unschedulable=cordoned)
    step(cluster, [NodeGroupSeen(GROUP), NodeSeen(found)], policy, 1000.0, Nowhere())
    assert step(cluster, [], policy, 1601.0, Nowhere()).actions == (ReleaseNodes("", "g", ("n",)),)
    step(cluster, [NodeSeen(replace(NODE, unschedulable=True))], policy, 1602.0, Nowhere())
    kept = step(cluster, [NodesKept("g", ("n", "unknown"))], policy, 1603.0, Nowhere())
    assert (cluster.columns.node("n"), kept.actions) == (found, ())
    assert step(cluster, [], policy, 2202.0, Nowhere()).actions == (), "it counts as empty from 1603 s on"
    assert step(cluster, [], policy, 2204.0, Nowhere()).actions == (ReleaseNodes("", "g", ("n",)),)


def test_a_node_that_gets_the_label_of_its_group_later_is_the_requested_one() -> None:
    cluster, policy = Cluster(), Policy()
    step(cluster, [NodeGroupSeen(GROUP), NodesComing("g", ("g-1",), 0.0, 60.0, 9e9)], policy, 1000.0, Nowhere())
    step(cluster, [NodeSeen(replace(NODE, group=""))], policy, 1001.0, Nowhere())
    assert list(cluster.columns.groups.coming) == ["g-1"]
    step(cluster, [NodeSeen(NODE)], policy, 1002.0, Nowhere())
    assert not cluster.columns.groups.coming
    assert cluster.columns.node("g-1") is None


@pytest.mark.parametrize(("idle_s", "after_s"), [(600.0, 600.0), (float("inf"), cycle.UNWANTED_S)])
def test_requested_nodes_of_a_deleted_job_are_cancelled_without_failure(idle_s: float, after_s: float) -> None:
    cluster, policy, group = Cluster(), Policy(), replace(GROUP, idle_s=idle_s, min_nodes=1)
    gang = job("gang", role("worker", 3, cpu=3000), at=1000.0)
    step(
        cluster,
        [QueueSeen(Queue(name="default")), NodeGroupSeen(group), NodeSeen(NODE), Submitted(gang)],
        policy,
        1000.0,
        Nowhere(),
    )
    step(cluster, [], policy, 1002.0, Nowhere())
    assert list(cluster.columns.groups.coming) == ["g-1", "g-2"], "the third pod runs on the present node"
    gone = step(cluster, [Finished("gang")], policy, 1003.0, Nowhere())
    assert (gone.actions, gone.wake_s) == ((), 1003.0 + after_s), "another job may need the nodes meanwhile"
    later = step(cluster, [], policy, 1003.0 + after_s, Nowhere())
    assert later.actions == (ReleaseNodes("", "g", ("g-1", "g-2")),)
    assert (dict(cluster.columns.groups.coming), dict(cluster.columns.groups.failed)) == ({}, {})
