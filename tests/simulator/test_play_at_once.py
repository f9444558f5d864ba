"""A scheduler may request the next cycle at once, for example after a search for victims. These requests come to an
end.

The live loop then decides again without waiting (`loop.run`). If the requests never ended, the loop would do nothing
else. The seeds are those where this once happened: more queues searched for victims than may search in a cycle, and the
same queues came first in each cycle."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from phalanx import loop
from phalanx.cli.files.policy_file import setup_of
from phalanx.cli.study.simulation.trace_source import TraceSource, workload_of
from phalanx.simulator.run.play import play

CYCLES = 60  # more cycles than any of these worlds needs

CLUSTER = """
nodes:
- {name: a, count: 2, allocatable: {cpu: 6}, labels: {rack: a}}
- {name: b, count: 2, allocatable: {cpu: 6}, labels: {rack: b}}
reservations: [{name: r, start: 300, end: 5000, nodes: [b-0], users: [uz, vz]}]
jobs:
"""
POLICY = """
policy: {backfill: conservative, defaultQueue: x}
queues:
- {name: all, order: fair}
- name: x
  parent: all
  quotas: [{guaranteed: {cpu: 12}, limit: {cpu: 20}}]
  preemption: {within: lower, reclaim: never, grace: 10s}
- {name: z, parent: all, quotas: [{guaranteed: {cpu: 12}}], preemption: {within: lower, reclaim: never}}
"""


def a_job(index: int, random: Random) -> str:
    run_s, more = random.randint(10, 200), ""
    if random.random() < 0.3:
        more += f", array: {{jobs: {random.randint(1, 4)}, running: {random.randint(1, 2)}}}"
    if random.random() < 0.3:
        more += ", closeness: rack"
    elif random.random() < 0.3:
        more += ", preferredCloseness: rack"
    if random.random() < 0.2:
        more += ", singleton: s"
    if random.random() < 0.1:
        more += ", minimum: 1"
    if random.random() < 0.1:
        more += ", reservation: r"
    if random.random() < 0.2 and index:
        more += f", after: [{{job: j{random.randrange(index)}, when: any}}]"
    return (
        f"- {{id: j{index}, submit: {random.randint(0, 600)}, run: {run_s}, limit: {run_s * random.randint(1, 3)}, "
        f"user: {random.choice('uv')}z, queue: {random.choice('xz')}, priority: {random.choice([0, 0, 5])}, "
        f"pods: {random.randint(1, 4)}, requests: {{cpu: {random.randint(1, 5)}}}{more}}}\n"
    )


def think(cluster, events, policy, now_s, world):
    """Decide like the live loop: again, as long as the plan requests a cycle at once."""
    plan = loop.step(cluster, events, policy, now_s, world)
    cycles = 1
    while plan.wake_s is not None and plan.wake_s <= now_s:
        assert cycles < CYCLES, f"{cycles} cycles at {now_s} s, and no end"
        plan, cycles = loop.step(cluster, [], policy, now_s, world), cycles + 1
    return plan


@pytest.mark.slow
@pytest.mark.parametrize("seed", [5, 12])
def test_thinking_at_once_comes_to_an_end(tmp_path: Path, seed: int) -> None:
    random = Random(seed)
    trace, policy = tmp_path / "own.yaml", tmp_path / "policy.yaml"
    trace.write_text(CLUSTER + "".join(a_job(index, random) for index in range(30)))
    policy.write_text(POLICY)
    schedule = play(workload_of(TraceSource(trace=trace), 0), setup_of(str(policy)), think)
    assert any(fate.end_s is not None for fate in schedule.fates)


HUNTERS = """
nodes: [{name: a, count: 1, allocatable: {cpu: 4, memory: 64Gi}}]
jobs:
- {id: firm, submit: 0, run: 1000, requests: {memory: 64Gi}, preemptible: false}
- {id: weak, submit: 0, run: 1000, requests: {cpu: 4}}
"""


def test_the_simulated_cluster_thinks_again_at_once(tmp_path: Path) -> None:
    """Nine jobs search for victims when their preemption delay has passed, one more than may search in a cycle. Only
    the last job finds a victim. No other event happens for 1,000 s."""
    many = [
        f"- {{id: h{at}, submit: 9, run: 1, priority: {20 - at}, requests: {{memory: {at}Gi}}}}" for at in range(1, 9)
    ]
    last = "- {id: last, submit: 9, run: 1, priority: 1, requests: {cpu: 4}}"
    trace, policy = tmp_path / "own.yaml", tmp_path / "policy.yaml"
    trace.write_text(HUNTERS + "\n".join([*many, last]))
    policy.write_text("queues: [{name: default, order: priority, preemption: {within: lower, delay: 5s}}]")
    schedule = play(workload_of(TraceSource(trace=trace), 0), setup_of(str(policy)), loop.step)
    start_s = {fate.task.job.id: fate.start_s for fate in schedule.fates}
    assert start_s["last"] is not None
    assert start_s["last"] < 60
