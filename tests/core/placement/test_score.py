"""`core/placement/scoring/score.py`: which of the nodes that fit a pod goes to, by each strategy."""

from __future__ import annotations

from dataclasses import replace

import pytest

from phalanx.core.decide import decide
from phalanx.core.placement.scoring.score import expected_pods
from phalanx.model.event import Occupied
from phalanx.model.job import Job, Role
from phalanx.model.node import Device, Node
from phalanx.model.plan import Start
from phalanx.model.pod import DeviceShare, Shape, amounts
from phalanx.model.policy import Policy, ScoringStrategy
from tests.core.builders import cluster, job, node, role

HALF = Role(
    name="w", count=1, minimum=1, shape=Shape(requests=amounts({"cpu": 1000}), share=DeviceShare("gpu", milli=500))
)


def gpus(name: str, count: int, cpu: int = 8000) -> Node:
    devices = tuple(Device(name=f"g{at}", resource="gpu", memory_bytes=80) for at in range(count))
    return replace(node(name, cpu=cpu, gpu=count), devices=devices)


def used(on: str, **held: int) -> Occupied:
    return Occupied(f"pod-{on}", on, amounts({"pods": 1, **held}))


def chosen(score: ScoringStrategy, *news: Node | Occupied, asked: Job) -> str:
    """Return the node of the job's first pod."""
    book = cluster(*news, asked)
    (start,) = (each for each in decide(book, Policy(score=score), 0.0).actions if isinstance(each, Start))
    return start.placements[0].node


SMALL = job("j", role(cpu=1000))
THREE = (
    node("empty", cpu=8000),
    node("half", cpu=8000),
    node("full", cpu=8000),
    used("half", cpu=4000),
    used("full", cpu=6000),
)


@pytest.mark.parametrize(
    ("score", "name"),
    [
        (ScoringStrategy.PACK, "full"),
        (ScoringStrategy.SPREAD, "empty"),
        (ScoringStrategy.BEST_FIT, "full"),
        (ScoringStrategy.DOT_PRODUCT, "full"),
        (ScoringStrategy.LOAD, "empty"),
    ],
)
def test_strategies_by_amounts(score: ScoringStrategy, name: str) -> None:
    assert chosen(score, *THREE, asked=SMALL) == name


def test_load_goes_by_what_is_measured_where_it_is() -> None:
    """The charges are the reverse of the use."""
    busy = replace(node("charged", cpu=8000), used=amounts({"cpu": 100}))
    idle = replace(node("empty", cpu=8000), used=amounts({"cpu": 7000}))
    assert chosen(ScoringStrategy.LOAD, busy, idle, used("charged", cpu=6000), asked=SMALL) == "charged"


def test_random_is_the_same_for_the_same_state() -> None:
    nodes = [node(f"n{at}", cpu=8000) for at in range(20)]
    first = chosen(ScoringStrategy.RANDOM, *nodes, asked=SMALL)
    assert chosen(ScoringStrategy.RANDOM, *nodes, asked=SMALL) == first
    others = {chosen(ScoringStrategy.RANDOM, *nodes, used("n0", cpu=1 + at), asked=SMALL) for at in range(3)}
    changed = {
        chosen(ScoringStrategy.RANDOM, *nodes, *(used(f"n{at}", cpu=1) for at in range(many)), asked=SMALL)
        for many in range(1, 8)
    }
    assert len(changed | others) > 1


def test_device_packing_opens_no_node_while_another_has_free_devices() -> None:
    nodes = (gpus("idle", 4), gpus("begun", 4), replace(used("begun", gpu=1), devices=("g0",)))
    assert chosen(ScoringStrategy.DEVICE_PACKING, *nodes, asked=job("j", role(gpu=1, cpu=1000))) == "begun"


def test_a_share_goes_to_a_device_that_is_shared_already() -> None:
    for score in (ScoringStrategy.DEVICE_PACKING, ScoringStrategy.FRAGMENTATION):
        book = cluster(
            gpus("a", 2), gpus("b", 2), *(Job(id=f"j{at}", queue="default", roles=(HALF,)) for at in range(2))
        )
        starts = [each for each in decide(book, Policy(score=score), 0.0).actions if isinstance(each, Start)]
        places = {(each.placements[0].node, each.placements[0].devices) for each in starts}
        assert len(places) == 1, score


def test_expected_pods_are_those_of_the_known_jobs() -> None:
    book = cluster(node("n", cpu=8000), job("a", role(count=3, cpu=1)), job("b", role(cpu=2)))
    expected = {dict(shape.requests)["cpu"]: frequency for shape, frequency in expected_pods(book)}
    assert expected == {1: 3.0, 2: 1.0}
