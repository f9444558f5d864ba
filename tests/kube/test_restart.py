"""Points 3, 8 and 14 of the protocol: killed between any two writes and started again, nothing is lost and nothing is
started twice."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable

import pytest

from tests.kube.double import Object, job, node, pod
from tests.kube.stage import Stage

NODES = [node("n1"), node("n2")]

# name -> (objects as (kind, object) in order, number of pods that run in the end)
SCENARIOS: dict[str, tuple[list[Object], int]] = {
    "two Jobs, one gang": ([job("ps", 1, "2", job="t", job_roles="2"), job("w", 4, job="t", job_roles="2")], 5),
    "a Job": ([job("j", 4)], 4),
    "bare pods": ([pod(f"p{i}", job="t", min_available="3") for i in range(3)], 3),
    "pod by pod": ([job("j", 2), pod("driver", job="t"), pod("exec", job="t")], 4),
    "driver first": ([pod("driver", job="t", min_resources="cpu=3", min_available="3")], 1),
}


def kill_at(number: int, how: str) -> Callable[[str], str | None]:
    seen = Counter[str]()

    def fault(write: str) -> str | None:
        seen["writes"] += 1
        return how if seen["writes"] == number else None

    return fault


async def run_through(name: str, number: int, how: str) -> Stage:
    """Killed at write `number`, and started again; returns the stage at rest."""
    objects, pods = SCENARIOS[name]
    stage = Stage(nodes=NODES, seed=number, gang=name != "pod by pod")
    stage.put(*objects)
    stage.fault = kill_at(number, how)
    for _ in range(3):
        async with stage.scheduler():
            await stage.until(lambda: len(stage.api.bound()) == pods)
            for _ in range(8):
                await stage.turn()
            if not stage.killed:
                return stage
    raise AssertionError("killed more than once")


@pytest.mark.parametrize("how", ["kill", "kill after", "lost"])
@pytest.mark.parametrize("name", SCENARIOS)
def test_killed_at_every_write(name: str, how: str) -> None:
    whole = asyncio.run(run_through(name, 0, how)).api.writes
    for number in range(1, len(whole) + 1):
        stage = asyncio.run(run_through(name, number, how))
        assert Counter(stage.api.writes) == Counter(whole), f"write {number} was {how}"
        assert all(record.phase == "running" for record in stage.cluster.jobs.values())
        assert len(stage.api.pods()) == SCENARIOS[name][1]
