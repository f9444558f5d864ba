"""Gangs that are counted together have the room that each has by itself."""

from __future__ import annotations

from random import Random

import pytest

from phalanx.core.placement.capacity import FreeCapacity
from phalanx.core.placement.draft import Draft
from phalanx.model.job import Role
from phalanx.model.node import Node
from phalanx.model.pod import Shape, amounts
from phalanx.state.classes import Gang, InternTable
from phalanx.state.nodes.table import NodeTable

NODES = 50  # more than are looked at one by one


def columns(random: Random) -> NodeTable:
    """Nodes of two zones, some with devices, partly taken."""
    found = NodeTable()
    for number in range(NODES):
        has = amounts({"cpu": 8000, "memory": 64, "pods": random.choice([3, 20]), "gpu": random.choice([0, 0, 4])})
        labels = (("zone", random.choice("ab")),)
        found.update(Node(name=f"n-{number}", allocatable=has, labels=labels))
        found.charge(f"n-{number}", amounts({"cpu": random.randrange(8000), "memory": random.randrange(64), "pods": 1}))
    return found


def gangs(random: Random, interned: InternTable) -> list[Gang]:
    """Some ask for a zone, some for devices, some for what no node has."""
    found = []
    for _ in range(300):
        asks = {"cpu": random.randrange(100, 8000), "memory": random.randrange(1, 64)}
        asks |= random.choice([{}, {}, {"gpu": 1}, {"fpga": 1}])
        selector = random.choice([(), (), (("zone", "a"),)])
        size = random.choice([1, 4, 16])
        shape = Shape(requests=amounts(asks), selector=selector)
        found.append(interned.gang((Role(name="w", count=size, minimum=size, shape=shape),)))
    return list(dict.fromkeys(found))


@pytest.mark.parametrize("seed", range(4))
def test_together_as_each_by_itself(seed: int) -> None:
    random, interned = Random(seed), InternTable()
    draft, asked = Draft(columns(random)), gangs(random, interned)
    together, alone = FreeCapacity(draft, iter(())), FreeCapacity(draft, iter(()))
    fitting = together.count(together.asking(asked)).gangs.tolist()
    assert {gang for gang in asked if alone.fits_alone(gang)} == set(fitting)
    assert 0 < len(fitting) < len(asked)
    for gang in asked:
        room = draft.room(gang.demands[0])
        assert together.short(gang) == alone.short(gang) == (room if room < gang.minimums[0] else None)
