"""Devices by name: whatever comes and goes, none is given twice, and what is free is given."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from phalanx.core.decide import decide
from phalanx.core.fold.fold import fold, fold_plan
from phalanx.model.event import Finished, Occupied, Submitted, Vacated
from phalanx.model.job import Job, Role
from phalanx.model.node import Device, Node
from phalanx.model.plan import Start
from phalanx.model.pod import DeviceShare, Shape, amounts
from phalanx.model.policy import Policy, ScoringStrategy
from phalanx.state.cluster import Cluster
from tests.core.builders import cluster
from tests.invariants import check_invariants

GPU = "nvidia.com/gpu"
SIZE = 1000  # bytes of memory of each device

wholes = st.integers(1, 2).map(lambda count: Shape(requests=amounts({"cpu": 1, GPU: count})))
parts = st.builds(
    lambda milli, count: Shape(requests=amounts({"cpu": 1}), share=DeviceShare(GPU, milli=milli, count=count)),
    st.sampled_from([100, 333, 500, 1000]),
    st.sampled_from([1, 1, 2]),
)
memories = st.builds(
    lambda size: Shape(requests=amounts({"cpu": 1}), share=DeviceShare(GPU, memory_bytes=size)),
    st.sampled_from([1, 333, 500, 1000]),
)
steps = st.lists(st.one_of(wholes, parts, memories, st.integers(0, 9)), min_size=4, max_size=14)
scores = st.sampled_from(
    [
        ScoringStrategy.PACK,
        ScoringStrategy.SPREAD,
        ScoringStrategy.FRAGMENTATION,
        ScoringStrategy.FEWEST_LOST,
        ScoringStrategy.DEVICE_PACKING,
    ]
)


@pytest.mark.slow
@given(steps, scores)
def test_no_device_is_given_twice_and_none_idles(things: list[Shape | int], score: ScoringStrategy) -> None:
    """A shape is submitted; a number ends one of the jobs."""
    book = cluster(*(gpu_node(name) for name in "ab"))
    for at, thing in enumerate(things):
        if isinstance(thing, Shape):
            role = Role(name="w", count=1, minimum=1, shape=thing)
            fold(book, [Submitted(Job(id=f"job-{at}", queue="default", roles=(role,), submitted_s=float(at)))])
        elif book.jobs:
            fold(book, [Finished(sorted(book.jobs)[thing % len(book.jobs)])])
        fold_plan(book, decide(book, Policy(score=score), float(at)))
        check_invariants(book)
        given_truly(book)


def gpu_node(name: str) -> Node:
    devices = tuple(Device(name=f"g{at}", resource=GPU, memory_bytes=SIZE) for at in range(2))
    return Node(name=name, allocatable=amounts({"cpu": 99, "pods": 99, GPU: 2}), devices=devices)


def given_truly(book: Cluster) -> None:
    """Counted from what the jobs were given alone; and whatever waits fits nowhere."""
    left = {(name, f"g{at}"): [1000, SIZE] for name in "ab" for at in range(2)}
    for record in book.jobs.values():
        shape = record.gang.roles[0].shape
        for slot, name in record.placements.items():
            given_names = record.devices[slot]
            assert len(set(given_names)) == len(given_names) == (shape.share.count if shape.share else wanted(shape))
            for device in given_names:
                milli, memory = part(shape)
                left[name, device][0] -= milli
                left[name, device][1] -= memory
    assert min(min(each) for each in left.values()) >= 0
    for record in book.jobs.values():
        if not record.placements:
            assert not any(fits(record.gang.roles[0].shape, [left[name, "g0"], left[name, "g1"]]) for name in "ab")


def part(shape: Shape) -> tuple[int, int]:
    if shape.share is None:
        return 1000, SIZE
    return shape.share.milli or shape.share.memory_bytes, shape.share.memory_bytes or shape.share.milli


def wanted(shape: Shape) -> int:
    return dict(shape.requests).get(GPU, 0)


def fits(shape: Shape, devices: list[list[int]]) -> bool:
    milli, memory = part(shape)
    free = sum(each[0] >= milli and each[1] >= memory for each in devices)
    return free >= (shape.share.count if shape.share else wanted(shape))


def test_what_a_foreign_pod_has_by_name_is_given_to_nobody_until_it_is_gone() -> None:
    """The pod is reported before its node, is copied with the cluster state, and is reported again with another
    device."""
    asks = amounts({"cpu": 1, GPU: 1})
    role = Role(name="w", count=1, minimum=1, shape=Shape(requests=asks))
    jobs = [Job(id=f"j{at}", queue="default", roles=(role,), submitted_s=float(at)) for at in (0, 1)]
    book = cluster(Occupied("p", "a", asks, devices=("g0",)), gpu_node("a"), *jobs).copy()
    fold_plan(book, decide(book, Policy(), 0.0))
    assert list(book.jobs["j0"].devices.values()) == [("g1",)]
    assert not book.jobs["j1"].placements
    check_invariants(book)
    fold(book, [Occupied("p", "a", asks, devices=("g1",))])
    check_invariants(book)
    fold(book, [Vacated("p")])
    fold_plan(book, decide(book, Policy(), 1.0))
    assert list(book.jobs["j1"].devices.values()) == [("g0",)]
    check_invariants(book)


def test_pods_hold_whole_devices_without_names_if_these_are_only_counted() -> None:
    devices = tuple(Device(name=str(number), resource=GPU, counted=True) for number in range(2))
    book = cluster(Node(name="n", allocatable=amounts({"cpu": 9, GPU: 2, "pods": 9}), devices=devices))
    whole = Shape(requests=amounts({"cpu": 1, GPU: 1}))
    half = Shape(requests=amounts({"cpu": 1}), share=DeviceShare(GPU, milli=500))
    given: list[tuple[str, ...] | None] = []
    for number, shape in enumerate((whole, half, half, half, whole)):
        role = Role(name="w", count=1, minimum=1, shape=shape)
        fold(book, [Submitted(Job(id=f"j{number}", queue="default", roles=(role,)))])
        plan = decide(book, Policy(), 0.0)
        fold_plan(book, plan)
        starts = [action for action in plan.actions if isinstance(action, Start)]
        given.append(starts[0].placements[0].devices if starts else None)
        check_invariants(book)
    assert given == [(), ("0",), ("0",), None, None]
