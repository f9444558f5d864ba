"""`core/placement/scoring/constrained.py`: constrained pods, each on the best node that passes every filter."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from phalanx.core.placement.draft import Draft
from phalanx.core.placement.scoring import constrained
from phalanx.core.placement.scoring.constrained import best_position, fill_constrained, share_text
from phalanx.model.event import Adopted
from phalanx.model.job import Job, Phase, Placement, Role
from phalanx.model.node import Device, Node, Zone
from phalanx.model.pod import (
    DeviceShare,
    HostPort,
    Operator,
    PodAffinityTerm,
    Requirement,
    Shape,
    amounts,
)
from phalanx.model.policy import ScoringStrategy
from phalanx.state.classes import Demand
from phalanx.state.cluster import Cluster
from tests.core.builders import cluster, node

GPU = "nvidia.com/gpu"
HOST, ZONE = "host", "zone"


def zoned(name: str, zone: str, cpu: int = 4) -> Node:
    return node(name, cpu=cpu, labels={HOST: name, ZONE: zone})


def like(app: str, topology: str = ZONE, **how: Any) -> PodAffinityTerm:
    return PodAffinityTerm(topology, (Requirement("app", Operator.IN, (app,)),), **how)


def shape(app: str = "x", **fields: Any) -> Shape:
    return Shape(requests=amounts({"cpu": 1}), labels=(("app", app),), namespace="n", **fields)


def asked(of: Shape) -> Job:
    return Job(id="asked", queue="default", roles=(Role(name="w", count=1, minimum=1, shape=of),))


def running(name: str, of: Shape, *nodes: str) -> Adopted:
    role = Role(name="w", count=len(nodes), minimum=len(nodes), shape=of)
    placed = tuple(Placement(0, at, one) for at, one in enumerate(nodes))
    return Adopted(Job(id=name, queue="default", roles=(role,)), 1, Phase.RUNNING, placed)


def drafted(of: Shape, *news: Any, score: ScoringStrategy = ScoringStrategy.PACK) -> tuple[Cluster, Draft, Demand]:
    book = cluster(*news, asked(of))
    [demand] = book.jobs["asked"].gang.demands
    return book, Draft(book.columns, score=score), demand


def placed(
    of: Shape, count: int, *news: Any, score: ScoringStrategy = ScoringStrategy.PACK
) -> tuple[dict[str, int], int]:
    """Return node -> its new pods, and the number of pods that found no capacity."""
    book, draft, demand = drafted(of, *news, score=score)
    shares: list[tuple[int, int, int]] = []
    left = fill_constrained(draft, demand, 0, count, shares, None)
    found: dict[str, int] = {}
    for _, position, pods in shares:
        name = book.columns.names[int(draft.rows[position])]
        found[name] = found.get(name, 0) + pods
    return found, left


# --- filters ----------------------------------------------------------------------------------------------------------


def test_pods_keep_away_from_each_other() -> None:
    apart = shape(away=(like("x", HOST),))
    nodes = [zoned(name, "a") for name in ("n0", "n1", "n2")]
    assert placed(apart, 3, *nodes) == ({"n0": 1, "n1": 1, "n2": 1}, 0)
    assert placed(apart, 5, *nodes) == ({"n0": 1, "n1": 1, "n2": 1}, 2)


def test_pods_of_a_host_port_take_a_node_each() -> None:
    assert placed(shape(ports=(HostPort(80),)), 3, zoned("n0", "a"), zoned("n1", "a")) == ({"n0": 1, "n1": 1}, 1)


def test_why_no_node_was_left_is_noted_with_the_number_of_nodes_of_each_filter() -> None:
    away = shape(away=(like("y", HOST),), ports=(HostPort(80),))
    taken = running("taken", Shape(requests=amounts({"cpu": 1}), ports=(HostPort(80),)), "n1")
    _, draft, demand = drafted(
        away, zoned("n0", "a"), zoned("n1", "a"), node("full", cpu=0), running("y", shape("y"), "n0"), taken
    )
    assert best_position(draft, demand, None) is None
    total, rejected = draft.objections[demand]
    assert total == 2, "the full node has no capacity, which is no filter's doing"
    assert sum(count for _, count in rejected) == 2
    assert len(rejected) == 2


def test_only_the_given_nodes_are_used() -> None:
    book, draft, demand = drafted(shape(ports=(HostPort(80),)), zoned("n0", "a"), zoned("n1", "a"))
    within = np.array([book.columns.names[int(row)] == "n1" for row in draft.rows])
    position = best_position(draft, demand, within)
    assert position is not None
    assert book.columns.names[int(draft.rows[position])] == "n1"
    assert best_position(draft, demand, np.zeros(len(draft), np.bool_)) is None


# --- preferences ------------------------------------------------------------------------------------------------------


def test_the_preferences_of_the_pod_come_before_the_policy() -> None:
    wish = shape(near=(like("y", HOST, weight=10),))
    nodes = (zoned("busy", "a"), zoned("liked", "a"))
    busy, liked = running("z", shape("z"), "busy", "busy"), running("y", shape("y"), "liked")
    for score in (ScoringStrategy.PACK, ScoringStrategy.SPREAD):
        assert placed(wish, 1, *nodes, busy, liked, score=score) == ({"liked": 1}, 0), score


def test_without_preferences_the_policy_decides() -> None:
    plain = shape(ports=(HostPort(80),))
    nodes = (zoned("busy", "a"), zoned("idle", "a"))
    busy = running("z", shape("z"), "busy", "busy")
    assert placed(plain, 1, *nodes, busy) == ({"busy": 1}, 0)
    assert placed(plain, 1, *nodes, busy, score=ScoringStrategy.SPREAD) == ({"idle": 1}, 0)


# --- affinity to the own kind -----------------------------------------------------------------------------------------


def test_pods_that_stay_together_go_to_the_tightest_domain_that_holds_all() -> None:
    together = shape(near=(like("x"),))
    nodes = (zoned("n0", "small", 2), zoned("n1", "fits", 2), zoned("n2", "fits", 1), zoned("n3", "large", 9))
    assert placed(together, 2, *nodes) == ({"n0": 2}, 0)
    found, left = placed(together, 3, *nodes)
    assert (set(found), left) == ({"n1", "n2"}, 0)
    assert placed(together, 9, *nodes) == ({"n3": 9}, 0)


def test_if_no_domain_holds_all_as_many_as_possible_stay_together() -> None:
    found, left = placed(shape(near=(like("x"),)), 5, zoned("n0", "a", 3), zoned("n1", "b", 2))
    assert (sum(found.values()), left, len(found)) == (5 - left, left, 1)


def test_a_running_pod_of_the_kind_draws_all_to_its_domain() -> None:
    together = shape(near=(like("x"),))
    nodes = (zoned("n0", "a", 2), zoned("n1", "b", 9))
    assert placed(together, 2, *nodes, running("x", together, "n1")) == ({"n1": 2}, 0)


def test_nodes_without_the_label_are_no_domain() -> None:
    found, left = placed(shape(near=(like("x"),)), 2, node("bare", cpu=9), zoned("n0", "a", 2))
    assert (found, left) == ({"n0": 2}, 0)


def test_a_bounded_number_of_domains_is_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(constrained, "DOMAINS", 1)
    book, draft, demand = drafted(shape(near=(like("x"),)), *(zoned(f"n{at}", f"z{at}") for at in range(4)))
    assert len([*constrained.own_domains(draft, demand, 2, None)]) == 1
    assert [*constrained.own_domains(draft, demand, 1, None)] == [], "a single pod has no others to be with"
    assert len(book.columns.row_of) == 4


def test_a_domain_that_fails_leaves_the_draft_as_it_was() -> None:
    """By counting zone a holds both pods, but they keep away from each other on its only host."""
    both = shape(near=(like("x"),), away=(like("x", HOST),))
    found, left = placed(both, 2, zoned("n0", "a", 2), zoned("n1", "b", 3), zoned("n2", "b", 3))
    assert (found, left) == ({"n1": 1, "n2": 1}, 0)


# --- devices and NUMA zones -------------------------------------------------------------------------------------------


def gpus(name: str, count: int = 2) -> Node:
    devices = tuple(Device(name=f"g{at}", resource=GPU, memory_bytes=8 << 30) for at in range(count))
    return Node(name=name, allocatable=amounts({"cpu": 99, "pods": 99, GPU: count}), devices=devices)


def test_shares_fill_a_device_before_another_is_opened() -> None:
    half = Shape(requests=amounts({"cpu": 1}), share=DeviceShare(GPU, milli=500))
    assert placed(half, 4, gpus("a"), gpus("b")) in (({"a": 4}, 0), ({"b": 4}, 0))
    assert placed(half, 9, gpus("a"), gpus("b"))[1] == 1


def test_a_share_of_several_devices_needs_as_many() -> None:
    two = Shape(requests=amounts({"cpu": 1}), share=DeviceShare(GPU, milli=500, count=2))
    assert placed(two, 1, gpus("a", 1), gpus("b", 2)) == ({"b": 1}, 0)
    _, draft, demand = drafted(two, gpus("a", 1))
    assert best_position(draft, demand, None) is None
    [(text, count)] = draft.objections[demand][1]
    assert (text, count) == (f"have fewer than 2 {GPU} with 500/1000 left", 1)


@pytest.mark.parametrize(
    ("share", "text"),
    [
        (DeviceShare(GPU, milli=333), "333/1000"),
        (DeviceShare(GPU, memory_bytes=8 << 30), "8Gi"),
        (DeviceShare(GPU, memory_bytes=512 << 20), "0.5Gi"),
    ],
)
def test_a_share_is_named_as_its_user_asked(share: DeviceShare, text: str) -> None:
    assert share_text(share) == text


def numa(name: str, *cpus: int) -> Node:
    zones = tuple(Zone(name=str(at), allocatable=amounts({"cpu": cpu})) for at, cpu in enumerate(cpus))
    return Node(name=name, allocatable=amounts({"cpu": sum(cpus), "pods": 99}), zones=zones)


def test_an_aligned_pod_needs_one_zone_with_everything() -> None:
    required = Shape(requests=amounts({"cpu": 3}), aligned="required")
    assert placed(required, 1, numa("halves", 2, 2), numa("whole", 4)) == ({"whole": 1}, 0)
    assert placed(required, 2, numa("halves", 2, 2), numa("whole", 4)) == ({"whole": 1}, 1)
    preferred = Shape(requests=amounts({"cpu": 3}), aligned="preferred")
    assert placed(preferred, 2, numa("halves", 2, 2), numa("whole", 4)) == ({"whole": 1, "halves": 1}, 0)
