"""The simulated provider of nodes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from phalanx.model.event import Event, NodeGroupSeen, NodesComing, NodeSeen, NodesFailed
from phalanx.model.node import Node, NodeGroup
from phalanx.model.plan import ReleaseNodes, RequestNodes
from phalanx.simulator.cluster.agenda import Agenda
from phalanx.simulator.cluster.disturbance import Disturbance, Faults
from phalanx.simulator.cluster.provider import HOPELESS, NodeProvider
from phalanx.simulator.workload import SimulatedGroup


class Cluster:
    """A provider with one group, and what it reported."""

    def __init__(self, *, minimum: int = 0, **faults: float) -> None:
        group = NodeGroup(name="g", template=Node(name="", allocatable=()), min_nodes=minimum, delay_s=60.0)
        self.agenda: Agenda[Callable[[], Sequence[Event]]] = Agenda([])
        self.nodes, self.lost = dict[str, Node](), list[str]()
        chance = Disturbance(Faults(), 0)
        self.provider = NodeProvider(
            [SimulatedGroup(group=group, **faults)],
            self.nodes,
            self.agenda,
            chance,
            lambda name, event: [event],
            self._lose,
        )

    def _lose(self, name: str) -> Sequence[Event]:
        self.lost.append(name)
        del self.nodes[name]
        return ()

    def request(self, *names: str) -> None:
        self.provider.apply(RequestNodes("j", "g", names, 0.0, 60.0, 900.0))

    def run(self) -> list[Event]:
        found: list[Event] = []
        while (taken := self.agenda.take()) is not None:
            found += taken[1]()
        return found


def test_nodes_of_the_minimum_are_there_and_paid_from_the_beginning() -> None:
    cluster = Cluster(minimum=2)
    assert list(cluster.nodes) == ["g-1", "g-2"]
    cluster.provider.close()
    assert [rental.start_s for rental in cluster.provider.rentals] == [0.0, 0.0]


def test_a_requested_node_comes_after_the_delay() -> None:
    cluster = Cluster()
    cluster.request("n")
    assert [type(one) for one in cluster.provider.listing()] == [NodeGroupSeen, NodesComing]
    [seen] = cluster.run()
    assert isinstance(seen, NodeSeen)
    assert (cluster.agenda.now_s, list(cluster.nodes)) == (60.0, ["n"])
    assert len(cluster.provider.listing()) == 1


def test_a_request_that_was_cancelled_brings_no_node() -> None:
    cluster = Cluster()
    cluster.request("n")
    cluster.provider.apply(ReleaseNodes("", "g", ("n",)))
    assert cluster.run() == []
    assert cluster.nodes == {}


def test_a_name_that_is_requested_again_is_a_new_request() -> None:
    cluster = Cluster()
    cluster.request("n")
    cluster.provider.apply(ReleaseNodes("", "g", ("n",), late=True))
    cluster.request("n")
    assert len(cluster.run()) == 1, "the first request is over"
    assert cluster.provider.failures == 0


def test_a_released_node_is_lost_and_its_bill_ends() -> None:
    cluster = Cluster()
    cluster.request("n")
    cluster.run()
    cluster.provider.apply(ReleaseNodes("", "g", ("n", "unknown")))
    cluster.run()
    assert cluster.lost == ["n"]
    cluster.provider.close()
    assert [(one.start_s, one.end_s) for one in cluster.provider.rentals] == [(60.0, 60.0)]


def test_a_provider_that_always_refuses_is_hopeless() -> None:
    cluster = Cluster(refused=1.0)
    cluster.request(*(f"n{at}" for at in range(HOPELESS)))
    found: Any = cluster.run()
    assert all(isinstance(one, NodesFailed) for one in found)
    assert len(found) == HOPELESS
    assert cluster.provider.is_hopeless


def test_requests_that_never_arrive_report_nothing() -> None:
    cluster = Cluster(never=1.0)
    cluster.request("n")
    assert cluster.run() == []
    assert isinstance(cluster.provider.listing()[1], NodesComing), "it is still awaited"
