"""Reserved capacity on nodes: a job that would fit without the reservation gets the reason RoomKept, not NeverFits."""

from __future__ import annotations

from dataclasses import replace

import pytest

from phalanx.core.decide import decide
from phalanx.core.fold.fold import fold
from phalanx.dialects.frame.dialect import NodePart
from phalanx.kube.capacity.node_parts import split
from phalanx.model.event import NodeGone, NodeSeen, QueueSeen, ReservationSeen
from phalanx.model.job import Job, Role
from phalanx.model.node import Device, Node, Reservation, Topology, TopologyRequest
from phalanx.model.plan import Start, Wait
from phalanx.model.pod import DeviceShare, Operator, PodAffinityTerm, Requirement, Shape, amounts
from phalanx.model.policy import Policy
from phalanx.model.queue import Queue
from phalanx.model.reason import Reason
from phalanx.state.cluster import Cluster
from tests.core.builders import cluster, job, node, role

POLICY = Policy(topologies=(Topology(levels=("rack",)),))


def keeping(whole: Node, *, pods: int = 1, closed: bool = False, **room: int) -> list[Node]:
    """The node, less what is kept of it, and the part."""
    part = NodePart(name="for-a", node=whole.name, allocatable=amounts({"pods": pods, **room}), closed=closed)
    return list(split(whole, [part]))


def told(book: Cluster, name: str) -> Reason:
    plan = decide(book, POLICY, 0.0)
    return next(action.reason for action in plan.actions if isinstance(action, Wait) and action.job == name)


def apart(count: int, cpu: int) -> Role:
    """Pods of which no two go to one node."""
    term = PodAffinityTerm(topology="host", selector=(Requirement("app", Operator.IN, ("x",)),))
    shape = Shape(requests=amounts({"cpu": cpu}), labels=(("app", "x"),), away=(term,))
    return Role(name="w", count=count, minimum=count, shape=shape)


def on_hosts(*nodes: Node) -> list[Node]:
    return [replace(each, labels=(("host", each.name), ("rack", "r1"))) for each in nodes]


def waits(said: Reason) -> str:
    return f"{said.code}: {said.text}"


@pytest.mark.parametrize("closed", [False, True])
def test_a_pod_that_fits_no_node_while_room_is_kept_waits_for_it(closed: bool) -> None:
    said = told(cluster(*keeping(node("n1", cpu=8000), cpu=5000, closed=closed), job("j", role("w", 1, cpu=6000))), "j")
    assert waits(said) == (
        "RoomKept: it would fit if no room were kept for others: a pod of role w asks 6 cpu, but the largest node has "
        "3; kept is n1/for-a (5 cpu)"
    )
    assert said.numbers["kept"] == {"n1/for-a": {"cpu": 5000, "pods": 1}}
    assert said.more_nodes_help


GANGS = {
    "more pods than the nodes hold": Job(id="j", queue="default", roles=(role("w", 3, cpu=4000),)),
    "roles that are too much together": Job(
        id="j", queue="default", roles=(role("a", 2, cpu=3000), role("b", 2, cpu=3000))
    ),
    "roles that compete": Job(id="j", queue="default", roles=(role("a", 1, cpu=6000), role("b", 2, cpu=3000))),
    "pods apart": Job(id="j", queue="default", roles=(apart(2, 6000),)),
    "one domain": Job(
        id="j", queue="default", roles=(role("w", 3, cpu=4000),), closeness=TopologyRequest(level="rack")
    ),
}


@pytest.mark.parametrize("gang", GANGS.values(), ids=GANGS)
def test_so_does_a_gang_whatever_it_lacks(gang: Job) -> None:
    first, second = on_hosts(node("n1", cpu=8000), node("n2", cpu=8000))
    said = told(cluster(*keeping(first, cpu=5000), second, gang), "j")
    assert str(said.code) == "RoomKept", said.text
    assert "n1/for-a" in said.numbers["kept"]
    starts = decide(cluster(first, second, gang), POLICY, 0.0).actions
    assert any(isinstance(action, Start) for action in starts)  # where nothing is kept it has a place


def test_parts_of_devices_are_counted_too() -> None:
    whole = replace(node("n1", cpu=8000, gpu=1), devices=(Device(name="g0", resource="gpu", memory_bytes=8),))
    asks = Shape(requests=amounts({"cpu": 6000}), share=DeviceShare(resource="gpu", milli=500))
    wide = Job(id="j", queue="default", roles=(Role(name="w", count=1, minimum=1, shape=asks),))
    said = told(cluster(*keeping(whole, cpu=5000), wide), "j")
    assert str(said.code) == "RoomKept", said.text


@pytest.mark.parametrize("asks", [{"cpu": 9000}, {"cpu": 1000, "gpu": 1}])
def test_who_fits_no_node_anyway_never_fits(asks: dict[str, int]) -> None:
    said = told(cluster(*keeping(node("n1", cpu=8000), cpu=5000), job("j", role("w", 1, **asks))), "j")
    assert str(said.code) == "NeverFits"
    assert "kept" not in said.text


def test_only_room_on_nodes_that_it_may_use_is_named() -> None:
    fast = replace(node("n2", cpu=8000), labels=(("kind", "fast"),))
    asks = Shape(requests=amounts({"cpu": 6000}), selector=(("kind", "fast"),))
    wide = Job(id="j", queue="default", roles=(Role(name="w", count=1, minimum=1, shape=asks),))
    said = told(cluster(*keeping(node("n1", cpu=8000), cpu=5000), *keeping(fast, cpu=4000), wide), "j")
    assert set(said.numbers["kept"]) == {"n2/for-a"}


def test_it_holds_up_nobody_and_starts_when_nothing_is_kept() -> None:
    whole = node("n1", cpu=8000)
    head, small = (
        job("head", role("w", 1, cpu=6000), queue="q"),
        job("small", role("w", 1, cpu=1000), queue="q", at=1.0),
    )
    book = cluster(QueueSeen(Queue(name="q", strict=True)), *keeping(whole, cpu=5000), head, small)
    plan = decide(book, POLICY, 0.0)
    assert [action.job for action in plan.actions if isinstance(action, Start)] == ["small"]
    fold(book, [NodeGone("n1/for-a"), NodeSeen(whole)])
    plan = decide(book, POLICY, 1.0)
    assert "head" in [action.job for action in plan.actions if isinstance(action, Start)]


def test_a_job_that_fits_only_reserved_nodes_is_told_whose_they_are() -> None:
    """An advance reservation, for other jobs or for no job, keeps its nodes' sizes, so the reason is a different
    one."""
    held = ReservationSeen(Reservation(name="m", start_s=0.0, end_s=100.0, nodes=("n2",)))
    book = cluster(node("n1", cpu=3000), node("n2", cpu=8000), held, job("j", role("w", 1, cpu=6000)))
    assert str(told(book, "j").code) == "Reserved"
