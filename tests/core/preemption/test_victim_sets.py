"""The choice of victims, compared with trying every permitted set: the cheapest set, by default among the fair ones."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from random import Random

import pytest

from phalanx.core.decide import decide
from phalanx.core.fold.fold import fold
from phalanx.core.preemption import victim_sets
from phalanx.core.preemption.victim_sets import Choice
from phalanx.model.event import Adopted, Event, NodeSeen, QueueSeen, Submitted, Ticked
from phalanx.model.job import Job, Phase, Placement, Role
from phalanx.model.node import Node
from phalanx.model.plan import Plan, Preempt, Shrink
from phalanx.model.pod import Shape, amounts
from phalanx.model.policy import Policy
from phalanx.model.queue import Queue, QueuePreemption, Quota, ReclaimWithinCohort, VictimOrder, WithinQueue
from phalanx.state.cluster import Cluster
from tests.core.brute import Runner, fair, held, price
from tests.reference.replay import read_turns
from tests.seeds import mostly_slow

NOW_S = 1000.0
POLICY = Policy()
QUEUES = ("a", "b", "c")
SIDE_BY_SIDE = [Queue(name=name) for name in QUEUES]
PARENTS = {"a": "left", "b": "left", "c": "right", "d": "right", "e": ""}


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """Nodes by name with their GPUs, all that runs, and one job of `pods` times `gpus` that finds no room."""

    nodes: dict[str, int]
    runners: list[Runner]
    pods: int
    gpus: int


def case(seed: Random, queues: tuple[str, ...], priorities: tuple[int, ...]) -> Case:
    """Full nodes, gangs of one to three pods anywhere on them."""
    nodes = {f"node-{at}": seed.choice((4, 8)) for at in range(seed.randint(1, 3))}
    free, runners = dict(nodes), list[Runner]()
    while len(runners) < 11 and any(free.values()):
        gpus, held = seed.choice((1, 1, 2, 2, 3, 4)), dict[str, int]()
        for _ in range(seed.choice((1, 1, 1, 2, 3))):
            fitting = [name for name, left in free.items() if left >= gpus]
            if fitting:
                name = seed.choice(fitting)
                free[name] -= gpus
                held[name] = held.get(name, 0) + gpus
        if held:
            ran_s = float(seed.choice((10, 100, 500)))
            name, queue = f"job-{len(runners)}", seed.choice(queues)
            runners.append(Runner(name, queue, seed.choice(priorities), gpus, held, ran_s))
    return Case(nodes=nodes, runners=runners, pods=seed.choice((1, 1, 2)), gpus=seed.choice((1, 2, 3, 4, 4, 8)))


def job(name: str, queue: str, priority: int, pods: int, gpus: int) -> Job:
    role = Role(name="worker", count=pods, minimum=pods, shape=Shape(requests=amounts({"gpu": gpus})))
    return Job(id=name, queue=queue, roles=(role,), priority=priority)


def events(of: Case, wants: QueuePreemption, queues: Iterable[Queue] = SIDE_BY_SIDE) -> Iterator[Event]:
    for name, gpus in of.nodes.items():
        yield NodeSeen(Node(name=name, allocatable=amounts({"gpu": gpus, "pods": 110})))
    everything = (Quota(guaranteed=(("gpu", sum(of.nodes.values())),)),)
    yield QueueSeen(Queue(name="own", quotas=everything, preemption=wants))
    yield from map(QueueSeen, queues)
    for each in of.runners:
        nodes = [name for name, gpus in each.held.items() for _ in range(gpus // each.gpus)]
        placed = tuple(Placement(0, at, node) for at, node in enumerate(nodes))
        runs = job(each.name, each.queue, each.priority, len(placed), each.gpus)
        yield Adopted(runs, 1, Phase.RUNNING, placed, started_s=NOW_S - each.ran_s)
    yield Submitted(job("new", "own", 0, of.pods, of.gpus))
    yield Ticked(NOW_S)


def decided(of: Case, wants: QueuePreemption, more: Iterable[Event] = ()) -> Plan:
    cluster = Cluster()
    fold(cluster, (*events(of, wants), *more))
    return decide(cluster, POLICY, NOW_S)


def victims(of: Case, plan: Plan) -> frozenset[Runner]:
    assert not any(isinstance(action, Shrink) for action in plan.actions)
    gone = {action.job for action in plan.actions if isinstance(action, Preempt)}
    return frozenset(each for each in of.runners if each.name in gone)


def sets(runners: list[Runner]) -> Iterator[frozenset[Runner]]:
    for count in range(len(runners) + 1):
        yield from map(frozenset, combinations(runners, count))


def makes_room(of: Case, gone: frozenset[Runner]) -> bool:
    held = {name: sum(each.held.get(name, 0) for each in of.runners if each not in gone) for name in of.nodes}
    return sum((gpus - held[name]) // of.gpus for name, gpus in of.nodes.items()) >= of.pods


@pytest.mark.parametrize("block", mostly_slow(range(0, 300, 30), fast=1, sample=4))
def test_of_lower_priorities_the_cheapest_give_way(block: int) -> None:
    for number in range(block, block + 30):
        of = case(Random(number), ("own",), (-2, -1, -1))
        found = victims(of, decided(of, QueuePreemption(within=WithinQueue.LOWER)))
        enough = [each for each in sets(of.runners) if makes_room(of, each)]
        if not enough:
            assert not found, number
            continue
        assert makes_room(of, found), number
        assert price(found) == min(map(price, enough)), number


@pytest.mark.parametrize("block", mostly_slow(range(0, 300, 30), fast=1, sample=4))
def test_where_there_is_room_and_no_quota_the_cheapest_give_way(block: int) -> None:
    for number in range(block, block + 30):
        of = case(Random(number), ("own",), (-2, -1, -1))
        asked, used = of.pods * of.gpus, sum(each.total for each in of.runners)
        full = Queue(
            name="own",
            quotas=(Quota(guaranteed=(("gpu", 0),), limit=(("gpu", used),)),),
            preemption=QueuePreemption(within=WithinQueue.LOWER),
        )
        spare = Node(name="spare", allocatable=amounts({"gpu": asked, "pods": 110}))
        found = victims(of, decided(of, full.preemption, more=(QueueSeen(full), NodeSeen(spare))))
        enough = [each for each in sets(of.runners) if sum(gone.total for gone in each) >= asked]
        assert (price(found) == min(map(price, enough))) if enough else not found, number


@pytest.mark.parametrize("block", mostly_slow(range(0, 300, 30), fast=1, sample=4))
def test_of_other_queues_the_cheapest_of_those_that_it_is_fair_to_ask(block: int) -> None:
    for number in range(block, block + 30):
        of = case(Random(number), QUEUES, (0, 0, 1))
        found = victims(of, decided(of, QueuePreemption(reclaim=ReclaimWithinCohort.ANY)))
        enough = {each for each in sets(of.runners) if makes_room(of, each)}
        if not enough:
            assert not found, number
            continue
        assert found in enough, number
        assert fair(found, of.runners, enough), number
        assert price(found) == min(
            price(each) for each in enough if minimal(each, enough) and fair(each, of.runners, enough)
        ), number


@pytest.mark.parametrize("block", mostly_slow(range(0, 300, 30), fast=1, sample=4))
def test_of_other_queues_the_cheapest_where_the_queue_says_so(block: int) -> None:
    for number in range(block, block + 30):
        of = case(Random(number), QUEUES, (0, 0, 1))
        wants = QueuePreemption(reclaim=ReclaimWithinCohort.ANY, victims=VictimOrder.CHEAPEST)
        found, enough = victims(of, decided(of, wants)), [each for each in sets(of.runners) if makes_room(of, each)]
        assert (price(found) == min(map(price, enough))) if enough else not found, number


@pytest.mark.parametrize("number", mostly_slow([3724, *range(1000, 1120)], fast=20, sample=50))
def test_in_a_tree_with_weights_the_richest_leaf_gives_first(number: int) -> None:
    """Compared where the ways of two queues part. (Rarely no set is fair of which nobody could stay.)"""
    seed = Random(number)
    of = case(seed, tuple(PARENTS), (0, 0, 1))
    weight = {name: seed.choice((1, 1, 2)) for name in (*PARENTS, "left", "right")}

    def share(queue: str, left: Sequence[Runner]) -> tuple[float, ...]:
        (own,) = held(queue, left)
        parent = PARENTS[queue]
        above = sum(each.total for each in left if PARENTS[each.queue] == parent)
        return (above / weight[parent], own / weight[queue]) if parent else (own / weight[queue],)

    sides = [Queue(name=name, weight=weight[name]) for name in ("left", "right")]
    leaves = [Queue(name=name, parent=parent, weight=weight[name]) for name, parent in PARENTS.items()]
    cluster = Cluster()
    fold(cluster, events(of, QueuePreemption(reclaim=ReclaimWithinCohort.ANY), [*sides, *leaves]))
    found = victims(of, decide(cluster, POLICY, NOW_S))
    enough = {each for each in sets(of.runners) if makes_room(of, each)}
    best = [price(each) for each in enough if minimal(each, enough) and fair(each, of.runners, enough, share)]
    assert bool(found) == bool(enough)
    assert not enough or minimal(found, enough)
    assert not best or (fair(found, of.runners, enough, share) and price(found) == min(best))


def minimal(gone: frozenset[Runner], enough: set[frozenset[Runner]]) -> bool:
    return not any(gone - {each} in enough for each in gone)


def gone(text: str) -> list[str]:
    """Return the jobs that the first cycle of a scenario preempts."""
    turns, policy = read_turns(text)
    cluster = Cluster()
    fold(cluster, (Ticked(turns[0].now_s), *turns[0].events))
    actions = decide(cluster, policy, turns[0].now_s).plan.actions
    return sorted(action.job for action in actions if isinstance(action, Preempt))


def beside(rigid: int, elastic: bool) -> str:
    """Return a world in which `high` needs the node of its two victims. Other jobs are on nodes that are too small."""
    pods = "pods=2 min=1 cpu=1 started=35 worker/0@n worker/1@n" if elastic else "cpu=2 started=35 worker/0@n"
    small = (f"node s{at} cpu=1\nadopted s{at}#1 running queue=q cpu=1 worker/0@s{at}" for at in range(rigid))
    return "\n".join(
        [
            "node n cpu=4\nqueue q within=lower",
            "adopted rigid#1 running queue=q cpu=1 started=10 worker/0@n",
            f"adopted other#1 running queue=q {pods}",
            *small,
            "job high queue=q priority=1 pods=2 cpu=2\ncycle at=80",
        ]
    )


@pytest.mark.parametrize(("small", "elastic", "all_sets"), [(11, False, 2**13), (12, False, 0), (10, True, 6 * 2**10)])
def test_up_to_8192_sets_all_are_compared(
    small: int, elastic: bool, all_sets: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    compared, find = list[int](), Choice.find

    def noted(choice: Choice) -> list[Placement] | None:
        compared.append(len(choice.sets))
        return find(choice)

    monkeypatch.setattr(Choice, "find", noted)
    assert gone(beside(small, elastic)) == ["other", "rigid"]
    assert compared == ([all_sets] if all_sets else [])


@pytest.mark.parametrize("small", [11, 100])
def test_beyond_the_bound_an_elastic_job_goes_whole_with_a_rigid_one(small: int) -> None:
    assert gone(beside(small, elastic=True)) == ["other", "rigid"]


@pytest.mark.parametrize(("tried", "found"), [(14, []), (15, ["b0", "b1"])])
def test_of_the_sets_that_free_enough_the_cheapest_are_tried(
    tried: int, found: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """By counting, any two of six jobs are enough. Only the two that have lost most work are in one rack."""
    places = [*((f"a{at}", f"r{at}", 50) for at in range(4)), ("b0", "last", 10), ("b1", "last", 10)]
    nodes = [f"node {node} gpu=1 label:rack={rack}" for node, rack, _ in places]
    runs = [f"adopted {node}#1 running queue=q gpu=1 started={at} worker/0@{node}" for node, _, at in places]
    new = "job new queue=q priority=5 pods=2 gpu=1 close=rack\ncycle at=80"
    monkeypatch.setattr(victim_sets, "ALL_TRIED", tried)
    assert gone("\n".join(["policy levels=rack", "queue q within=lower", *nodes, *runs, new])) == found


@pytest.mark.parametrize("small", [3, 14])
@pytest.mark.parametrize("down_to", ["fair-share", "guarantee"])
def test_no_job_preempts_gangs_of_which_one_could_return_alone(small: int, down_to: str) -> None:
    """With 14 small gangs there are more sets than are compared. A small gang returns if its queue goes by shares."""
    cpus = small + 20
    text = "\n".join(
        [
            f"node n cpu={cpus}",
            f"queue theirs reclaim=any down-to={down_to}",
            "queue own weight=3 reclaim=any down-to=fair-share",
            *(f"adopted s{at}#1 running queue=theirs priority=-1 cpu=1 started=5 worker/0@n" for at in range(small)),
            "adopted large#1 running queue=theirs cpu=20 started=5 worker/0@n",
            f"job new queue=own pods={cpus} cpu=1\ncycle at=80",
        ]
    )
    assert len(gone(text)) == (0 if down_to == "fair-share" else small + 1)
