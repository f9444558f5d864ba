"""Into how few of its nodes what ran could have been packed."""

from __future__ import annotations

import pytest

from phalanx import loop
from phalanx.model.job import Group, Job, Placement, Role
from phalanx.model.pod import Shape
from phalanx.model.policy import Policy
from phalanx.simulator.measures.fragmentation import busiest, compaction, held_by
from phalanx.simulator.run.play import play
from phalanx.simulator.run.setup import built_in
from phalanx.simulator.schedule import Schedule
from phalanx.simulator.workload import GPU, Task, Workload, gpu_nodes


def gpu_task(name: str, gpus: int, submit_s: float = 0, run_s: float = 100, pods: int = 1) -> Task:
    role = Role(name="", count=pods, minimum=pods, shape=Shape(requests=((GPU, gpus),)))
    return Task(job=Job(id=name, queue="", roles=(role,), submitted_s=submit_s), run_s=run_s)


def played(*tasks: Task, nodes: int = 10, policy: str = "spread") -> Schedule:
    return play(
        Workload(name="t", tasks=tasks, nodes=gpu_nodes(nodes, 4), counted=GPU, unit=1), built_in(policy), loop.step
    )


def compacted(schedule: Schedule, policy: str = "greedy", orders: int = 3) -> dict[str, float]:
    return compaction(schedule, built_in(policy).policy, loop.step, orders)


def test_what_is_spread_over_all_nodes_is_packed_on_few() -> None:
    # Eight pods of one GPU lay on eight nodes of four; two nodes hold them.
    schedule = played(*(gpu_task(f"j{at}", 1) for at in range(8)))
    assert len({stint.placements[0].node for stint in schedule.stints}) == 8
    assert compacted(schedule) == {"compacted_cell_ratio": 0.2, "compacted_jobs": 8}


def test_a_policy_that_spreads_leaves_no_room_for_who_comes_later() -> None:
    # Of 4 + 1 + 1: side by side on two nodes if packed; spread, the two small ones take a node each first.
    tasks = gpu_task("a", 1), gpu_task("b", 1), gpu_task("c", 4)
    schedule = played(*tasks, nodes=6)
    assert compacted(schedule, "greedy")["compacted_cell_ratio"] == pytest.approx(2 / 6)
    assert compacted(schedule, "spread")["compacted_cell_ratio"] == pytest.approx(3 / 6)


def test_the_busiest_moment_counts() -> None:
    # a (2) until 10, then b and c (3 each) until 100; d comes when they are gone.
    tasks = gpu_task("a", 2, 0, 10), gpu_task("b", 3, 10, 90), gpu_task("c", 3, 20, 80), gpu_task("d", 4, 200, 5)
    assert [job.id for job in busiest(played(*tasks))] == ["b", "c"]


def test_a_job_counts_with_the_pods_that_it_had() -> None:
    shape = Shape(requests=((GPU, 1),))
    roles = tuple(Role(name=name, count=4, minimum=1, shape=shape, group="g") for name in "xy")
    job = Job(id="a", queue="q", roles=roles, groups=(Group(name="g"),), limit_s=5, deadline_s=9)
    both = held_by(job, [Placement(0, 0, "n"), Placement(0, 2, "n"), Placement(1, 0, "n")], 3.0)
    assert [(role.count, role.minimum, role.group) for role in both.roles] == [(2, 2, "g"), (1, 1, "g")]
    assert (both.submitted_s, both.limit_s, both.deadline_s, both.queue) == (3.0, None, None, "")
    one = held_by(job, [Placement(1, 0, "n")], 0.0)
    assert [(role.name, role.count, role.group) for role in one.roles] == [("y", 1, "")]
    assert one.groups == ()


def test_of_one_node_where_nothing_ran_or_when_stopped_nothing_is_said() -> None:
    assert compacted(played(gpu_task("a", 1), nodes=1)) == {}
    assert compacted(played(gpu_task("a", 9))) == {}
    schedule = played(gpu_task("a", 1))
    assert compaction(schedule, Policy(default_queue="x"), loop.step, 3, stopped=lambda: True) == {}
