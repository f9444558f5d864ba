"""`kube/world/capacity_sources.py`: what a world does with node groups and with other clusters."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from phalanx.kube.gang.lifecycle.gang import GangLifecycle
from phalanx.kube.gang.spec.elsewhere import Choose, any_cluster
from phalanx.kube.world.capacity_sources import ManagerWorld
from phalanx.model.event import Event, NodeGroupSeen, NodeSeen
from phalanx.model.node import Node, NodeGroup
from phalanx.model.plan import Plan, ReleaseNodes, RequestNodes
from tests import clockwork
from tests.kube.double import job, node
from tests.kube.stage import Stage

GROUP = NodeGroup(name="g", template=Node(name="g", allocatable=()), delay_s=60.0, timeout_s=300.0)
WORKER = NodeSeen(Node(name="worker", allocatable=()))


@dataclass
class Groups:
    """Node groups, one of which is the pool `a`. `applied`: the actions that they got."""

    news: list[Event] = field(default_factory=lambda: [NodeGroupSeen(GROUP)])
    applied: list[RequestNodes | ReleaseNodes] = field(default_factory=list)
    group_labels: dict[tuple[str, str], str] = field(default_factory=lambda: {("pool", "a"): "g"})

    def wake(self) -> None:
        raise AssertionError("the world replaces this function")

    def events(self) -> Sequence[Event]:
        news, self.news = self.news, []
        return news

    def apply(self, action: RequestNodes | ReleaseNodes) -> None:
        self.applied.append(action)

    async def run(self) -> None:
        return


@dataclass
class Clusters:
    """One other cluster. `seen`: the gangs whose state was reported to it."""

    choose: Choose = any_cluster
    world: ManagerWorld = field(default_factory=ManagerWorld)
    news: list[Event] = field(default_factory=lambda: [WORKER])
    seen: list[str] = field(default_factory=list)

    def join(self, world: ManagerWorld) -> None:
        self.world = world

    def events(self) -> Sequence[Event]:
        news, self.news = self.news, []
        return news

    def saw(self, gang: GangLifecycle) -> None:
        self.seen.append(gang.id)

    async def run(self) -> None:
        return


def test_groups_and_clusters_are_reported_before_the_nodes_of_the_cluster() -> None:
    async def scene() -> None:
        stage, groups, clusters = Stage(nodes=[]), Groups(), Clusters()
        stage.put_node({**node("n1"), "metadata": {"name": "n1", "labels": {"pool": "a"}}})
        stage.put(job("j", 1))
        stage.provisioning, stage.clusters = groups, lambda client: clusters
        async with stage.scheduler():
            first, second, *others = stage.world.events()
            assert [first, second] == [WORKER, NodeGroupSeen(GROUP)]
            assert [each.node.group for each in others if isinstance(each, NodeSeen)] == ["g"]
            assert clusters.seen == ["default/j"]
            assert {groups.run, clusters.run} <= set(stage.world.tasks())

    clockwork.run(scene())


def test_node_groups_get_their_actions_and_can_wake_the_world() -> None:
    async def scene() -> None:
        stage, groups = Stage(nodes=[node("n1")]), Groups()
        stage.provisioning = groups
        async with stage.scheduler():
            stage.world.events()
            release = ReleaseNodes("", "g", ("n1",))
            stage.world.apply(Plan(actions=(release,)))
            assert groups.applied == [release]
            groups.wake()
            await stage.world.wait(None)  # returns at once

    clockwork.run(scene())


def test_a_cluster_marks_a_gang_for_which_it_may_be_chosen_now() -> None:
    async def scene() -> None:
        stage, clusters = Stage(nodes=[node("n1")]), Clusters()
        stage.put(job("j", 1))
        stage.clusters = lambda client: clusters
        async with stage.scheduler():
            stage.world.events()
            clusters.seen.clear()
            clusters.world.mark("default/j")
            stage.world.events()
            assert clusters.seen == ["default/j"]
            assert list(clusters.world.kinds())

    clockwork.run(scene())
