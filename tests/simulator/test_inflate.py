"""Filling a cluster up: what comes, and how much of the cluster is allocated by then."""

from __future__ import annotations

from dataclasses import replace

import pytest

from phalanx import loop
from phalanx.simulator.readers import openb
from phalanx.simulator.run.play import allocated, expecting, frequencies, inflated, play
from phalanx.simulator.run.setup import built_in
from phalanx.simulator.workload import GPU, Workload, of_resource
from tests.cli.test_simulate import objects
from tests.simulator.builders import DATA

NODES, PODS = DATA / "openb-nodes.csv", DATA / "openb-pods.csv"


@pytest.fixture
def workload() -> Workload:
    return replace(openb.read(PODS), nodes=openb.read_nodes(NODES))


def test_jobs_come_until_they_ask_for_more_than_there_is(workload: Workload) -> None:
    gpus = sum(dict(node.allocatable)[GPU] for node in workload.nodes)
    for ratio in (0.5, 3.0):
        tasks = inflated(workload, ratio, seed=1).tasks
        asked = [of_resource(task.job.roles, GPU) for task in tasks]
        assert sum(asked[:-1]) < ratio * gpus <= sum(asked)
        assert [task.job.submitted_s for task in tasks] == list(map(float, range(len(tasks))))
        assert len({task.job.id for task in tasks}) == len(tasks)


def test_the_seed_decides_who_comes_when(workload: Workload) -> None:
    first, again, other = ([task.job.id for task in inflated(workload, 2.0, seed).tasks] for seed in (1, 1, 2))
    assert first == again != other


def test_nodes_stand_in_an_order_by_chance(workload: Workload) -> None:
    names = [node.name for node in workload.nodes]
    orders = [[node.name for node in inflated(workload, 1.0, seed).nodes] for seed in (1, 1, 2)]
    assert orders[0] == orders[1] != orders[2]
    assert all(sorted(order) == sorted(names) for order in orders)


def test_what_is_allocated_follows_what_was_placed(workload: Workload) -> None:
    filled = inflated(workload, 3.0, seed=1)
    schedule = play(filled, built_in("fewest-lost"), loop.step)
    gpus = sum(dict(node.allocatable)[GPU] for node in workload.nodes)
    placed = [of_resource(fate.task.job.roles, GPU) for fate in schedule.fates if fate.start_s is not None]
    assert allocated(schedule, 3.0) == pytest.approx(sum(placed) / gpus)
    assert 0 < allocated(schedule, 0.5) <= allocated(schedule, 1.0) <= allocated(schedule, 3.0) <= 1


def test_who_minds_fragmentation_expects_what_the_workload_has(workload: Workload) -> None:
    typical = expecting(built_in("fgd").policy, workload).typical
    assert typical == frequencies(workload)
    assert sum(weight for _, weight in typical) == len(workload.tasks)
    assert not any(name == "memory" for shape, _ in typical for name, _ in shape.requests)
    assert expecting(built_in("best-fit").policy, workload).typical == ()


@pytest.mark.slow
def test_at_the_command_line(capsys: pytest.CaptureFixture[str]) -> None:
    rows = objects(capsys, PODS, "--cluster", NODES, "--inflate", 1.3, "--policy", "fgd", "best-fit")
    assert [row["policy"] for row in rows] == ["fgd", "best-fit"]
    assert all(0 < row["allocated_at_full_demand"] <= row["allocated_at_end"] <= 1 for row in rows)
