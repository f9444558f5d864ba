"""Cores of their own: whatever goes wrong, no cpu is given to two pods, and who could run ran."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import pytest

from phalanx.dialects.kube_scheduler.koordinator.definitions.cpus import STATUS, cpus_in
from tests.kube.double import node
from tests.kube.stage import Stage
from tests.kube.test_bind_barrier import play
from tests.kube.test_koordinator import ON, bound_pod, described, group
from tests.kube.trouble import Trouble
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


@pytest.mark.parametrize("seed", mostly_slow(range(4), fast=0))
def test_whatever_goes_wrong_a_cpu_is_given_once(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    trouble = Trouble(seed)
    dice = trouble.dice
    stage = Stage(nodes=[node("n1", 8), node("n2", 8)], seed=seed, dialects=ON)
    described(stage, "n1", 4)
    described(stage, "n2", 4)

    def happen(number: int) -> None:
        if trouble.calm or dice.random() > 0.3:
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

    monkeypatch.setattr("phalanx.kube.write.writer._BACKOFF_S", (0.0,))
    play(trouble.plays(stage, happen, lambda: given_twice(stage)))
    assert {one["status"]["phase"] for one in stage.api.pods()} == {"Succeeded"}
