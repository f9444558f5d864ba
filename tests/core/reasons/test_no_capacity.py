"""The jobs that hold the most of a resource on the nodes that a pod may use. The test counts them pod by pod."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from random import Random

import pytest

from phalanx.core.decide import decide
from phalanx.core.fold.fold import fold_plan
from phalanx.core.reasons.no_capacity import LARGEST, CycleGrants, ResourceConsumers
from phalanx.model.job import Job
from phalanx.model.policy import Policy
from phalanx.state.cluster import Cluster

from ..builders import cluster, job, node, role

NODES = 4


def on(zone: str, name: str, pods: int, cpu: int) -> Job:
    """Return a job whose pods may use the nodes of one zone; "": any node."""
    part = role("w", pods, cpu=cpu)
    return job(name, replace(part, shape=replace(part.shape, selector=(("zone", zone),) if zone else ())))


def world(seed: int) -> Cluster:
    random = Random(seed)
    nodes = [node(f"n{each}", labels={"zone": "ab"[each % 2]}, cpu=16) for each in range(NODES)]
    jobs = [
        on(random.choice(("", "a", "b")), f"j{each}", random.randint(1, 3), random.randint(1, 4)) for each in range(8)
    ]
    book = cluster(*nodes, *jobs)
    fold_plan(book, decide(book, Policy(), 0.0))
    return book


@pytest.mark.parametrize("zone", ["", "a", "b"])
@pytest.mark.parametrize("seed", range(20))
def test_the_largest_are_those_counted_pod_by_pod(seed: int, zone: str) -> None:
    book = world(seed)
    usable = {f"n{each}" for each in range(NODES) if zone in ("", "ab"[each % 2])}
    counted: Counter[str] = Counter()
    for name, record in book.jobs.items():
        for slot, where in record.placements.items():
            if where in usable:
                counted[name] += dict(record.gang.roles[slot.role].shape.requests)["cpu"]
    asking = book.interned.gang(on(zone, "asks", 1, 1).roles).demands[0]
    found = ResourceConsumers(book, CycleGrants(), "cpu", asking.where)
    assert {name: found.by(name) for name in counted} == dict(counted)
    assert [amount for _, amount, _ in found.largest()] == [amount for _, amount in counted.most_common(LARGEST)]
    assert all(counted[name] == amount for name, amount, _ in found.largest())
