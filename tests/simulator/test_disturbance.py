"""`simulator/cluster/disturbance.py`: faults of a simulated cluster, drawn from a seed."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest

from phalanx import loop
from phalanx.model.event import Event, NodeSeen
from phalanx.model.node import Node
from phalanx.model.queue import Queue
from phalanx.simulator.cluster.agenda import Agenda
from phalanx.simulator.cluster.disturbance import Disturbance, Faults, NodeFaults
from phalanx.simulator.run.play import play
from phalanx.simulator.run.setup import built_in
from phalanx.simulator.workload import processors
from tests.simulator.builders import ends, played, task, workload


def test_room_is_held_while_pods_come_up_or_wait_for_each_other() -> None:
    """And while a job that has half its pods waits until its time is over."""
    slow = Faults(slow_start=1.0, slow_start_s=100)
    (first, *_, last) = played(task("a", 0, 10, 4), faults=slow).stints
    assert (first.start_s, first.works, last.works) == (0, False, True)
    assert first.end_s == last.start_s > 0
    assert last.end_s == pytest.approx(last.start_s + 10)
    roles = (replace(processors(2), count=3, minimum=3),)
    halves = task("half", 5, 10)
    halves = replace(halves, job=replace(halves.job, roles=roles), active_s=60.0)
    one_by_one = replace(built_in("greedy"), queues=(Queue(name="default", gang=False),))
    schedule = play(workload(halves, size=5), one_by_one, loop.step)
    assert [(stint.start_s, stint.end_s, len(stint.placements), stint.works) for stint in schedule.stints] == [
        (5, 65, 2, False)
    ]
    assert ends(schedule) == {"half": 65}


def test_a_node_that_fails_takes_its_jobs_back_to_the_queue() -> None:
    faults = Faults(node_mtbf_s=500, node_repair_s=50)
    schedule = played(task("a", 0, 400, 10), task("b", 0, 400, 10), faults=faults, seed=3)
    restarts = sum(fate.starts - 1 for fate in schedule.fates)
    assert restarts > 0
    assert sum(fate.preemptions for fate in schedule.fates) == 0  # no job preempted them
    assert sum(fate.lost_s for fate in schedule.fates) > 0
    assert all(fate.end_s is not None and fate.ran_s == 400 for fate in schedule.fates)
    spans = sorted((stint.start_s, stint.end_s) for stint in schedule.stints)
    assert all(before[1] <= after[0] for before, after in pairwise(spans))  # one has all of it


def test_the_same_things_go_wrong_under_every_policy() -> None:
    faults = Faults(straggler=0.5, straggler_factor=3.0)
    jobs = [task(f"j{index}", index, 10) for index in range(20)]
    ran = [
        [fate.ran_s for fate in played(*jobs, faults=faults, seed=1, policy=name).fates] for name in ("fifo", "easy")
    ]
    assert ran[0] == ran[1]
    assert set(ran[0]) == {10, 30}


@pytest.mark.slow
def test_late_and_lost_messages_and_restarts_change_when_jobs_run_but_not_that_they_do() -> None:
    faults = Faults(
        late=0.5,
        late_s=30,
        lost=0.2,
        resync_s=100,
        restart_every_s=60,
        slow_start=0.5,
        node_mtbf_s=300,
        node_repair_s=20,
    )
    jobs = [task(f"j{index}", index * 3, 10 + index % 7, 1 + index % 5, limit_s=60) for index in range(60)]
    for seed in range(3):
        schedule = played(*jobs, faults=faults, seed=seed, policy="easy")
        assert all(fate.end_s is not None for fate in schedule.fates)
        for stint in schedule.stints:
            assert 0 < stint.end_s - stint.start_s <= (17 if stint.works else faults.slow_start_s)


def test_it_ends_when_only_faults_could_still_happen() -> None:
    """A job that can never run waits; nodes would fail and be back, and the scheduler restart, for ever."""
    faults = Faults(restart_every_s=60, node_mtbf_s=300, node_repair_s=20)
    schedule = played(task("large", 0, 10, 1000), task("small", 5, 10), policy="greedy", faults=faults)
    assert {fate.task.job.id: fate.end_s is not None for fate in schedule.fates} == {"large": False, "small": True}


@pytest.mark.slow
def test_a_job_longer_than_nodes_last_is_given_up_unless_it_saves_its_work() -> None:
    faults = Faults(node_mtbf_s=10, node_repair_s=1)
    without, saving = (
        played(task("long", 0, 1000), task("short", 0, 1), policy="greedy", faults=faults, checkpoint_s=each)
        for each in (None, 5.0)
    )
    (long, short), (saved, _) = without.fates, saving.fates
    assert (long.end_s, long.outcome) == (None, None)
    assert long.reason == "given up: 1000 times a node of it failed before anything that it did was saved"
    assert short.end_s is not None
    assert saved.end_s is not None


@pytest.mark.slow
def test_the_same_seed_gives_the_same_schedule() -> None:
    faults = Faults(late=0.5, lost=0.2, restart_every_s=60, slow_start=0.5, node_mtbf_s=300, node_repair_s=20)
    jobs = [task(f"j{index}", index * 3, 10 + index % 7, 1 + index % 5) for index in range(60)]
    hashes = [played(*jobs, faults=faults, seed=seed).sha256() for seed in (1, 1, 2)]
    assert hashes[0] == hashes[1] != hashes[2]


def test_draws_are_the_same_in_every_version_of_python() -> None:
    disturbance = Disturbance(Faults(node_mtbf_s=1000), 7)
    assert [disturbance.up_s("n0"), disturbance.up_s("n0"), disturbance.up_s("n1")] == [416.383, 645.578, 1443.59]


def test_a_node_fails_is_repaired_and_is_expected_to_fail_again() -> None:
    node, agenda, lost = Node(name="a", allocatable=()), Agenda[Any]([]), list[str]()
    nodes = {"a": node}

    def lose(name: str) -> list[Event]:
        lost.append(name)
        del nodes[name]
        return []

    faults = NodeFaults(Disturbance(Faults(node_mtbf_s=100.0), 3), nodes, agenda, lambda name, event: (event,), lose)
    faults.expect(restart=tuple)
    assert (faults.coming, agenda.left()) == (1, 1), "no restart is drawn"
    failed = agenda.take()
    assert failed is not None
    assert list(failed[1]()) == []
    assert (lost, nodes, faults.coming) == (["a"], {}, 0)
    repaired = agenda.take()
    assert repaired is not None
    assert list(repaired[1]()) == [NodeSeen(node)]
    assert (nodes, faults.coming) == ({"a": node}, 1)
