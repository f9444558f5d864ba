"""Cores of their own: whatever goes wrong, no cpu is given to two pods, and who could run ran."""

from __future__ import annotations

import json
import random
from collections import Counter
from typing import Any

import pytest

from phalanx.dialects.koordinator.definitions.cpus import STATUS, cpus_in
from tests.kube.double import node
from tests.kube.stage import Stage
from tests.kube.test_barrier import play
from tests.kube.test_koordinator import ON, bound_pod, described, group
from tests.seeds import mostly_slow

LABEL = "pod-group.scheduling.sigs.k8s.io"
SPREAD = {"preferredCPUBindPolicy": "SpreadByPCPUs"}


def given_twice(stage: Stage) -> list[Any]:
    """Cpus that several pods have, by node; and pods on nodes that do not have as many as they asked for."""
    held, wrong = Counter[tuple[str, int]](), []
    for one in stage.api.pods():
        where = one["spec"].get("nodeName")
        if where is None or one["status"]["phase"] != "Pending":
            continue
        own = cpus_in(json.loads(one["metadata"]["annotations"][STATUS])["cpuset"])
        held.update((where, cpu) for cpu in own)
        if len(own) != int(one["spec"]["containers"][0]["resources"]["requests"]["cpu"]):
            wrong.append(one["metadata"]["name"])
    return [each for each, pods in held.items() if pods > 1] + wrong


@pytest.mark.parametrize("seed", mostly_slow(range(4), fast=1))
def test_whatever_goes_wrong_a_cpu_is_given_once(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    dice, calm = random.Random(seed), False

    def fault(write: str) -> str | None:
        return None if calm or dice.random() > 0.15 else dice.choice(["kill", "kill after", "lost", "not today"])

    def happen(stage: Stage, number: int) -> None:
        waiting = [one for one in stage.api.pods() if one["status"]["phase"] == "Pending"]
        bound = [one["metadata"]["name"] for one in waiting if one["spec"].get("nodeName")]
        if bound and (calm or dice.random() < 0.2):
            stage.finish(dice.choice(bound))
        if calm or dice.random() > 0.3:
            return
        if dice.random() < 0.3:
            group(stage, f"g{number}", 2)
            gang = [bound_pod(f"g{number}-{at}", "3") for at in (0, 1)]
            for member in gang:
                member["metadata"]["labels"][LABEL] = f"g{number}"
            stage.put(*gang)
        else:
            spread = {"resource_spec": SPREAD} if dice.random() < 0.5 else {}
            stage.put(bound_pod(f"p{number}", dice.choice(["1", "2", "3", "4"]), **spread))

    async def scene() -> None:
        nonlocal calm
        stage = Stage(nodes=[node("n1", 8), node("n2", 8)], seed=seed, dialects=ON)
        described(stage, "n1", 4)
        described(stage, "n2", 4)
        stage.fault = fault
        turns = 0

        def over() -> bool:
            return calm and all(one["status"]["phase"] == "Succeeded" for one in stage.api.pods())

        while turns < 300 and not over():
            async with stage.scheduler():
                while turns < 300 and not stage.killed and not over():
                    turns += 1
                    calm = turns > 60
                    stage.now_s += 1.0
                    happen(stage, turns)
                    await stage.turn()
                    assert not given_twice(stage), turns
        assert over(), stage.api.bound()

    monkeypatch.setattr("phalanx.kube.write.writer._BACKOFF_S", (0.0,))
    play(scene())
