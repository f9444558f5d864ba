"""Node groups in simulations: jobs start whole, nodes are given back, and the bill is close to the cheapest."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from itertools import product
from random import Random

import pytest

from phalanx import loop
from phalanx.cli.local.node_groups.option import node_group, node_groups
from phalanx.errors import PhalanxError
from phalanx.model.event import Event
from phalanx.model.job import Job, Role
from phalanx.model.plan import Plan, RequestNodes, Start
from phalanx.model.pod import Shape, amounts
from phalanx.model.policy import Policy
from phalanx.simulator.cluster.disturbance import Faults
from phalanx.simulator.measures.measure import measure
from phalanx.simulator.run.play import TimedApplier, play
from phalanx.simulator.run.setup import built_in
from phalanx.simulator.schedule import Schedule
from phalanx.simulator.workload import GPU, SimulatedGroup, Task, Workload
from phalanx.state.cluster import Cluster
from tests.invariants import check_invariants
from tests.seeds import mostly_slow

DAY_S = 86_400.0


def gang(name: str, submit_s: float, run_s: float, pods: int = 1, gpus: int = 8) -> Task:
    role = Role(name="worker", count=pods, minimum=pods, shape=Shape(requests=amounts({GPU: gpus})))
    return Task(job=Job(id=name, queue="", roles=(role,), submitted_s=submit_s), run_s=run_s)


def clustered(tasks: Sequence[Task], groups: Sequence[SimulatedGroup]) -> Workload:
    return Workload(name="test", tasks=tasks, groups=tuple(groups), counted=GPU, unit=1)


def played(
    tasks: Sequence[Task], *groups: str, step: Callable[..., Plan] = loop.step, seed: int = 0, **more: object
) -> Schedule:
    workload = clustered(tasks, node_groups(groups))
    return play(workload, built_in("easy"), step, seed=seed, **more)  # type: ignore[arg-type]  # as play's


def test_a_gang_waits_for_its_nodes_and_pays_for_its_time() -> None:
    found = played([gang("a", 0.0, 3600.0, pods=3)], "spot=0x8gpu,delay=3m,price=2.5")
    measures = measure(found)
    assert found.fates[0].start_s == 1.0 + 180.0
    assert measures["bill"] == pytest.approx(3 * 2.5)
    assert (measures["nodes_added"], measures["paid_use_ratio"]) == (3, 1.0)


def test_an_empty_node_is_used_again_before_it_is_released() -> None:
    tasks = [gang("a", 0.0, 600.0), gang("b", 1000.0, 600.0), gang("c", 9000.0, 600.0)]
    found = played(tasks, "spot=0x8gpu,delay=3m,idle=10m,price=1")
    assert [fate.start_s for fate in found.fates] == [181.0, 1000.0, 9181.0]
    assert [(each.start_s, each.end_s) for each in found.rentals] == [(181.0, 1600.0 + 600.0), (9181.0, 9781.0)]


def test_a_node_that_never_arrives_is_given_up_and_the_next_group_is_tried() -> None:
    found = played([gang("a", 0.0, 60.0)], "bad=0x8gpu,timeout=5m,never=1", "good=0x8gpu,delay=2m,price=9")
    assert found.fates[0].start_s == 1.0 + 300.0 + 120.0
    assert {each.node.group for each in found.rentals} == {"good"}


@pytest.mark.slow
def test_a_run_ends_if_its_provider_never_adds_a_node() -> None:
    found = played([gang("a", 0.0, 60.0)], "bad=0x8gpu,refused=1", "worse=0x8gpu,never=1")
    assert found.fates[0].start_s is None
    assert re.search(r"1 node of (bad|worse), requested at ", found.fates[0].reason)
    assert measure(found)["bill"] == 0


class Watcher:
    """Plays steps and checks each of them. `asked`: how often nodes were requested for each job."""

    def __init__(self) -> None:
        self.asked: dict[str, int] = {}
        self.passes = 0

    def step(
        self, cluster: Cluster, events: Sequence[Event], policy: Policy, now_s: float, world: TimedApplier
    ) -> Plan:
        plan = loop.step(cluster, events, policy, now_s, world)
        self.passes += 1
        if self.passes % 5 == 0:  # the check takes longer than the step
            check_invariants(cluster)
        coming = cluster.columns.groups.coming
        for action in plan.actions:
            match action:
                case Start():
                    missing = [placed.node for placed in action.placements if placed.node in coming]
                    assert not missing, f"{action.job} starts before {missing} have arrived"
                    record = cluster.jobs[action.job]
                    assert len(action.placements) >= sum(role.minimum for role in record.job.roles)
                case RequestNodes(job=job):
                    self.asked[job] = self.asked.get(job, 0) + 1
        sizes = cluster.columns.group_sizes()
        assert all(sizes[name] <= group.max_nodes for name, group in cluster.columns.groups.known.items())
        return plan


@pytest.mark.parametrize("seed", mostly_slow(range(6), fast=0, sample=2))
def test_a_day_with_a_bad_provider(seed: int) -> None:
    """Nodes arrive late, never, or leave. No gang starts in part, no node is left, and no job asks again and again."""
    draw, faulty = Random(seed), seed % 3 > 0
    faults = ",never=0.15,refused=0.1,late=0.3,late-by=10m,lifetime=4h" if faulty else ""
    groups = (f"spot=0x8gpu,max=6,delay=3m,price=2{faults}", f"demand=1x8gpu,max=12,delay=5m,price=5{faults}")
    tasks = [
        gang(f"job-{at}", round(draw.random() * DAY_S, 1), round(60 + 7000 * draw.random() ** 2, 1), *shape)
        for at, shape in enumerate(draw.choice([(1, 2), (1, 8), (2, 8), (4, 8)]) for _ in range(60))
    ]
    tasks.append(gang("last", 3 * DAY_S, 60.0, 1, 1))
    tasks.sort(key=lambda each: each.job.submitted_s)
    watcher = Watcher()
    restarts = Faults(restart_every_s=4 * 3600.0) if seed % 3 == 2 else None
    found = played(tasks, *groups, step=watcher.step, seed=seed, faults=restarts)
    assert all(fate.end_s is not None for fate in found.fates), [fate.reason for fate in found.fates]
    quiet = [each for each in found.rentals if each.start_s < 2 * DAY_S and each.end_s > 3 * DAY_S]
    assert {each.node.group for each in quiet} <= {"demand"}
    assert len(quiet) <= 1, "only the minimum of a group is kept for a day without jobs"
    most = 1 if not faulty else 30
    assert max(watcher.asked.values()) <= 2 * most
    used = {(placed.node, stint.start_s) for stint in found.stints for placed in stint.placements}
    idle = [
        each
        for each in found.rentals
        if not any(name == each.node.name and each.start_s <= at_s < each.end_s for name, at_s in used)
    ]
    assert len(idle) <= 1 + (0.25 * len(found.rentals) if faulty else 0)


@pytest.mark.parametrize("seed", range(15))
def test_the_bill_of_small_cases_is_close_to_the_cheapest(seed: int) -> None:
    """Jobs that come together and run equally long: every combination of nodes is tried."""
    draw = Random(seed)
    sizes = draw.sample([2, 4, 8], draw.randint(2, 3))
    prices = [draw.choice([0.5, 1.0, 1.8, 3.1, 4.0]) for _ in sizes]
    tasks = [gang(f"j{at}", 0.0, 3600.0, draw.randint(1, 2), draw.choice([1, 2])) for at in range(draw.randint(1, 4))]
    groups = [f"g{size}=0x{size}gpu,max=4,price={price}" for size, price in zip(sizes, prices, strict=True)]
    found = played(tasks, *groups)
    pods = sorted((gpus for task in tasks for gpus in gpus_of(task)), reverse=True)
    cheapest = min(
        sum(price * count for price, count in zip(prices, counts, strict=True))
        for counts in product(range(5), repeat=len(sizes))
        if packs([size for size, count in zip(sizes, counts, strict=True) for _ in range(count)], pods)
    )
    assert measure(found)["bill"] <= 1.05 * cheapest


def gpus_of(task: Task) -> list[int]:
    return [dict(role.shape.requests)[GPU] for role in task.job.roles for _ in range(role.count)]


def packs(nodes: list[int], pods: list[int]) -> bool:
    """First fit decreasing is exact for pods of 1 and 2 GPUs on nodes with an even number."""
    left = list(nodes)
    for pod in pods:
        at = next((index for index, room in enumerate(left) if room >= pod), None)
        if at is None:
            return False
        left[at] -= pod
    return True


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("spot", "write NAME=MIN or NAME=MINxGPUSgpu first"),
        ("Spot=0", "write NAME=MIN or NAME=MINxGPUSgpu first; a name has lowercase letters"),
        ("spot=0x8gpu,max=lots", "max=lots: write a number of nodes from 1 to 10000"),
        ("spot=4x8gpu,max=2", "max=2: write a number of nodes from 4 to 10000"),
        ("spot=0,colour=red", "there is no field 'colour'; the fields are max, price, cpu"),
        ("spot=0,price=-1", "price=-1: write a number from 0 to 1e+09"),
        ("spot=0,delay=soon", "delay: 'soon' is not a length of time"),
        ("spot=0,delay=1h,timeout=5m", "timeout=300s is shorter than delay=3600s"),
        ("spot=0,cpu=0", "cpu=0: the amount must be more than 0"),
        ("spot=0,refused=0.7,never=0.7", "the sum of refused and never is more than 1"),
        ("spot=0,max=3,max=4", "'max=4' is not KEY=VALUE, or its key occurs twice"),
    ],
)
def test_a_wrong_group_is_refused_with_an_example(text: str, complaint: str) -> None:
    with pytest.raises(PhalanxError, match=re.escape(f"--node-group {text}: {complaint}")) as caught:
        node_group(text)
    assert str(caught.value).endswith("For example: --node-group a100-spot=0x8gpu,max=20,delay=3m,price=2.5")


def test_a_group_is_read_with_all_its_fields() -> None:
    found = node_group("a=2x4gpu,max=9,price=2.5,delay=3m,timeout=20m,idle=5m,cpu=32,label:zone=b,lifetime=6h,late=0.1")
    group = found.group
    assert (group.min_nodes, group.max_nodes, group.price_per_hour) == (2, 9, 2.5)
    assert (group.delay_s, group.timeout_s, group.idle_s) == (180.0, 1200.0, 300.0)
    assert (found.lifetime_s, found.late, found.late_s) == (21_600.0, 0.1, 300.0)
    assert dict(group.template.allocatable)[GPU] == 4
    assert dict(group.template.allocatable)["cpu"] == 32_000
    assert dict(group.template.labels) == {"phalanx.dev/node-group": "a", "zone": "b"}
