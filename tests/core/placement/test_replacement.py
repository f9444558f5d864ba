"""Close gangs through a long life: nodes come and go, jobs start, lose pods, grow and end, by seed.

After every step the book adds up, every started gang is as close as it asked, and nothing waits that would fit."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

import pytest

from phalanx.core.fold.fold import fold
from phalanx.core.placement import gang, replacement
from phalanx.core.placement.draft import Draft
from phalanx.loop import step
from phalanx.model.event import Event, Finished, NodeGone, NodeSeen, Opened, Started, Submitted
from phalanx.model.job import Group, Job, Phase, Placement, Role, Slot
from phalanx.model.node import Node, SliceLayer, Topology, TopologyRequest
from phalanx.model.plan import Place, Plan, Start
from phalanx.model.policy import Policy
from phalanx.state.cluster import Cluster, JobRecord
from tests.core.builders import cluster, node, role
from tests.invariants import check_invariants
from tests.seeds import mostly_slow

LEVELS = ("block", "rack", "host")
POLICY = Policy(topologies=(Topology(levels=LEVELS),))
NODES = 12


class Noted:
    """A world that only remembers."""

    def __init__(self) -> None:
        self.plan = Plan()

    def apply(self, plan: Plan) -> None:
        self.plan = plan


def a_node(at: int, cpu: int) -> Node:
    labels = {"block": "xy"[at % 2], "rack": "12"[at // 2 % 2], "host": f"n{at}"}
    return node(f"n{at}", labels=labels, cpu=cpu)


def a_job(seed: Random, number: int) -> Job:
    count = seed.randint(1, 6)
    least = seed.randint(1, count)
    level = seed.choice(LEVELS[:2])
    near = seed.choice(
        [
            TopologyRequest(level=level),
            TopologyRequest(level=level, balanced=True),
            TopologyRequest(level=level, required=False),
            TopologyRequest(level="block", slices=(SliceLayer(4, "rack"), SliceLayer(2, "host"))),
        ]
    )
    groups: tuple[Group, ...] = ()
    roles: tuple[Role, ...] = (role("w", count, least, cpu=1),)
    if seed.random() < 0.3:
        groups = (Group(name="g", closeness=TopologyRequest(level="rack")),)
        roles = (Role(name="w", count=count, minimum=count, shape=roles[0].shape, group="g"),)
        near = TopologyRequest(level="block")
    return Job(id=f"j{number}", queue="default", roles=roles, groups=groups, closeness=near, submitted_s=float(number))


class Life:
    def __init__(self, seed: int) -> None:
        self.seed, self.world, self.number = Random(seed), Noted(), 0
        self.book: Cluster = cluster(*(a_node(at, self.seed.randint(1, 4)) for at in range(NODES)))

    def happen(self) -> Iterator[Event]:
        """One thing that happens, and what follows from it at once."""
        started = [job for job, record in self.book.jobs.items() if record.phase is not Phase.QUEUED]
        chance = self.seed.random()
        if chance < 0.4 or not started:
            self.number += 1
            yield Submitted(a_job(self.seed, self.number))
        elif chance < 0.6:
            yield Finished(self.seed.choice(started))
        elif chance < 0.8:
            name = f"n{self.seed.randrange(NODES)}"
            yield NodeGone(name)
            for job, record in self.book.jobs.items():
                if slots := tuple(slot for slot, where in record.placements.items() if where == name):
                    yield Opened(job, slots)
        elif chance < 0.9:
            yield NodeSeen(a_node(self.seed.randrange(NODES), self.seed.randint(1, 4)))
        else:
            yield from self.wants_more(self.seed.choice(started))

    def wants_more(self, job: str) -> Iterator[Event]:
        record = self.book.jobs[job]
        slots = (Slot(0, ordinal) for ordinal in range(record.job.roles[0].count))
        if missing := tuple(slot for slot in slots if slot not in record.placements and slot not in record.open):
            yield Opened(job, missing)

    def go_on(self) -> None:
        step(self.book, tuple(self.happen()), POLICY, float(self.number), self.world)
        check_invariants(self.book)
        for action in self.world.plan.actions:
            if isinstance(action, Start):
                fold(self.book, [Started(action.job, action.attempt)])
            if isinstance(action, Start | Place):
                assert close_enough(self.book, self.book.jobs[action.job]), action

    def waits_in_vain(self) -> list[str]:
        """What would fit if it were tried now."""
        found = []
        for job, record in self.book.jobs.items():
            asked = [record.gang] if record.phase is Phase.QUEUED else []
            asked += [replacement.replacement_gang(self.book, POLICY.topologies, record, slot) for slot in record.open]
            for each in asked:
                if isinstance(gang.place(Draft(self.book.columns, POLICY.topologies), each), list):
                    found.append(job)
        return found


def close_enough(book: Cluster, record: JobRecord) -> bool:
    """Every required closeness of the job holds for the pods whose nodes are there."""
    asked = [record.job.closeness, *(group.closeness for group in record.job.groups)]
    places = [Placement(*slot, where) for slot, where in record.placements.items() if book.columns.node(where)]
    homes = {each: dict(book.columns.node(each.node).labels) for each in places}  # type: ignore[union-attr]  # it is there
    for near in asked:
        if near is not None and near.required and near.level:
            keys = LEVELS[: LEVELS.index(near.level) + 1]
            if len({tuple(home[key] for key in keys) for home in homes.values()}) > 1:
                return False
    return True


SEEDS = mostly_slow(range(60), fast=3, sample=20)


@pytest.mark.parametrize("seed", SEEDS)
def test_close_gangs_live_on(seed: int) -> None:
    life = Life(seed)
    for _ in range(60):
        life.go_on()
        step(life.book, (), POLICY, float(life.number), life.world)  # what a decision moved may be decided on at once
        assert life.waits_in_vain() == []
