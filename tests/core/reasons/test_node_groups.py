"""What reasons state about node groups: labels that they lack, and requested nodes, which do not exist yet."""

from __future__ import annotations

import pytest

from phalanx.loop import step
from phalanx.model.event import FlavorSeen, NodeGroupSeen, QueueSeen, Submitted
from phalanx.model.node import Flavor, Node, NodeGroup
from phalanx.model.plan import Plan
from phalanx.model.pod import amounts
from phalanx.model.policy import Policy
from phalanx.model.queue import Queue, Quota
from phalanx.state.cluster import Cluster
from tests.core.builders import job, role

A100 = Flavor(name="a100", labels=(("pool", "a100"),))
QUEUE = Queue(name="default", quotas=(Quota(flavor="a100", limit=amounts({"cpu": 64000})),))


class Nowhere:
    def apply(self, plan: Plan) -> None:
        pass


def group(name: str, cpu: int, **labels: str) -> NodeGroup:
    node = Node(name=name, allocatable=amounts({"cpu": cpu, "pods": 110}), labels=tuple(labels.items()))
    return NodeGroup(name=name, template=node, max_nodes=2)


@pytest.mark.parametrize(
    ("groups", "end"),
    [
        ([group("spot", 4000)], "; node group spot does not have the label pool=a100, which the job's flavor or node "),
        ([group("spot", 4000), group("big", 8000)], "; no node group has the label pool=a100, which the job's flavor"),
        ([group("spot", 4000), group("a100", 1000, pool="a100")], "; node group spot does not have the label pool=a"),
        ([group("a100", 1000, pool="a100")], "; a pod requests 3 cpu, and a node of a node group has at most 1: add"),
    ],
)
def test_a_label_that_large_enough_node_groups_lack_is_named(groups: list[NodeGroup], end: str) -> None:
    cluster, policy = Cluster(), Policy()
    seen = [*map(NodeGroupSeen, groups), FlavorSeen(A100), QueueSeen(QUEUE)]
    step(cluster, [*seen, Submitted(job("train", role("worker", 2, cpu=3000)))], policy, 1000.0, Nowhere())
    reason = cluster.reason("train")
    assert reason is not None
    assert f"there are no nodes{end}" in reason.text


def test_requested_nodes_are_not_counted_among_the_nodes() -> None:
    cluster, policy = Cluster(), Policy()
    seen = [NodeGroupSeen(group("spot", 4000)), QueueSeen(Queue(name="default"))]
    step(cluster, [*seen, Submitted(job("train", role("worker", 2, cpu=3000)))], policy, 1000.0, Nowhere())
    step(cluster, [], policy, 1002.0, Nowhere())
    assert len(cluster.columns.groups.coming) == 2
    step(cluster, [Submitted(job("five", role("worker", 5, cpu=3000)))], policy, 1003.0, Nowhere())
    reason = cluster.reason("five")
    assert reason is not None
    assert "there are no nodes; node group spot (max 2 nodes) can hold 2 of 5 pods" in reason.text
