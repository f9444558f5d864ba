"""Seeded disturbance: kills, lost answers, refusals, foreign pods, failing pods and deleted members at random moments.
Safety at every binding (no node over its room by our hand, no gang bound in part) and at every moment (whose first pod
is bound is bound whole soon, or goes back), and at the end everything that could run has run."""

from __future__ import annotations

import asyncio
import os
import random
from collections import Counter
from typing import Any

import pytest

from phalanx.client.kind import JOBS, NODES
from phalanx.kube.read.labels import SCHEDULER_NAME
from tests import clockwork
from tests.kube.double import Client, Object, job, node, pod
from tests.kube.stage import Stage
from tests.seeds import mostly_slow

SIZES = {"a": 4, "b": 3, "pair": 6, "mpi": 3, "duo": 4}
WHOLE_S = 400.0  # so long may a gang be bound in part, while it is completed or taken back
SEEDS = range(int(os.environ.get("PHALANX_KUBE_SEEDS", "25")))


class Disturbed:
    """A stage with four jobs, and a dice for what goes wrong."""

    def __init__(self, seed: int) -> None:
        self.dice = random.Random(seed)
        self.stage = Stage(nodes=[node("n1"), node("n2"), node("n3")], seed=seed)
        self.externally_managed = 0
        self.calm = False
        self.begun: set[str] = set()
        self.stage.fault = self.fault
        said = {"job": "pair", "job_roles": "2"}
        self.stage.put(job("a", 4), job("b", 3, "2"), job("ps", 1, "2", **said), job("w", 5, **said))
        self.stage.put(*(job(name, 2, job="duo", job_roles="2") for name in ("d1", "d2")))
        self.whole: set[str] = set()  # gangs that were bound whole
        self.in_part_s: dict[str, float] = {}  # gangs that are bound in part -> since when
        self.stage.put(*(pod(f"m{i}", job="mpi", min_available="3") for i in range(3)))

    def fault(self, write: str) -> str | None:
        if write.startswith("bind"):
            self.check_gang(write.split()[1])
        if self.calm or self.dice.random() > 0.08:
            return None
        return self.dice.choice(["kill", "kill after", "lost", "lost", "not today"])

    def check_gang(self, name: str) -> None:
        """Check that the first pod of a gang is bound only when all pods of the gang exist."""
        pods = self.stage.api.pods()
        bound = next(one for one in pods if one["metadata"]["name"] == name)
        gang = _gang(bound)
        mine = [one for one in pods if _gang(one) == gang and "deletionTimestamp" not in one["metadata"]]
        pending = [one for one in mine if one["status"]["phase"] == "Pending"]
        done = sum(one["status"]["phase"] == "Succeeded" for one in mine)
        if not done and not any(one["spec"].get("nodeName") for one in pending) and gang not in self.begun:
            assert len(pending) == SIZES[gang], f"{gang} is bound with {len(pending)} pods"
        self.begun.add(gang)

    def check_together(self) -> None:
        """Check that a gang with a bound pod soon has its whole minimum bound, or no pod."""
        pods = [one for one in self.stage.api.pods() if "theirs" not in one["metadata"]["name"]]
        on_nodes = Counter(_gang(one) for one in pods if one["spec"].get("nodeName"))
        self.whole |= {gang for gang, count in on_nodes.items() if count >= SIZES[gang]}
        in_part = on_nodes.keys() - self.whole
        now_s = self.stage.now_s
        self.in_part_s = {gang: self.in_part_s.get(gang, now_s) for gang in in_part}
        late = {gang: now_s - since_s for gang, since_s in self.in_part_s.items() if now_s - since_s > WHOLE_S}
        assert not late, f"bound in part: {late}, {self.stage.api.bound()}"

    def happen(self) -> None:
        """Something of the outside."""
        stage, dice = self.stage, self.dice
        running = [
            one
            for one in stage.api.pods()
            if one["spec"].get("nodeName") and one["status"]["phase"] == "Pending" and _gang(one) in {*self.whole, ""}
        ]
        if "duo" not in self.whole and not self.calm and len(self.duo()) == 2 and dice.random() < 0.03:
            stage.api.drop(JOBS, f"default/{dice.choice(self.duo())}")
        if running and dice.random() < 0.3:
            victim = dice.choice(running)["metadata"]["name"]
            failed = not self.calm and dice.random() < 0.3 and not victim.startswith("m")
            stage.finish(victim, "Failed" if failed else "Succeeded", dice.choice(["", "OutOfcpu"]) if failed else "")
        if not self.calm and dice.random() < 0.05:
            self.externally_managed += 1
            where = dice.choice(["n1", "n2", "n3"])
            if room(stage, where) >= 1000:
                stage.put(pod(f"theirs-{self.externally_managed}", "1", scheduler="default-scheduler", node=where))

    def duo(self) -> list[str]:
        return [name for name in ("d1", "d2") if f"default/{name}" in self.stage.api.objects[JOBS]]

    def passes_s(self) -> float:
        """Time goes slowly while something starts or runs, and fast while all rest."""
        if not self.calm:
            return self.dice.choice([0.1, 1.0, 20.0])
        return 60.0 if all(record.phase == "queued" for record in self.stage.cluster.jobs.values()) else 0.5

    async def run(self) -> None:
        for turns in (150, 600):
            self.calm = turns == 600
            while turns > 0 and not self.over():
                async with self.stage.scheduler():
                    while turns > 0 and not self.stage.killed and not self.over():
                        turns -= 1
                        self.stage.now_s += self.passes_s()
                        self.happen()
                        await self.stage.turn()
                        self.check_together()
                        if not self.stage.world.effects.writer.idle:
                            await asyncio.sleep(0.001)

    def over(self) -> bool:
        left = self.duo() if len(self.duo()) == 1 else []  # it waits for a member that will never come
        jobs = [one for one in self.stage.api.objects[JOBS].values() if one["metadata"]["name"] not in left]
        done = all(one.get("status", {}).get("conditions") for one in jobs)
        return self.calm and done and all(one["status"]["phase"] != "Pending" for one in self.stage.api.pods())


def _gang(one: Object) -> str:
    labels = one["metadata"]["labels"]
    name = labels.get("job") or ("mpi" if "phalanx.dev/job" in labels else "")
    return {"ps": "pair", "w": "pair", "d1": "duo", "d2": "duo"}.get(name, str(name))


def room(stage: Stage, name: str, *, ours: bool = False) -> int:
    """Return the node's free cpu in millicores. `ours`: ignore foreign pods, whose binding a moment ago the scheduler
    cannot know; the kubelet would reject the pod."""
    on_it = [one for one in stage.api.pods() if one["spec"].get("nodeName") == name]
    on_it = [one for one in on_it if not ours or one["spec"]["schedulerName"] == SCHEDULER_NAME]
    held = [one["spec"]["containers"] for one in on_it if one["status"]["phase"] == "Pending"]
    used = sum(int(containers[0]["resources"]["requests"]["cpu"]) for containers in held)
    return (int(stage.api.objects[NODES][name]["status"]["allocatable"]["cpu"]) - used) * 1000


@pytest.mark.parametrize("seed", mostly_slow(SEEDS, fast=3, sample=20))
def test_what_could_run_has_run(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    disturbed = Disturbed(seed)
    bind = Client._bind

    def checked(client: Client, body: Object, namespace: str, name: str) -> Any:
        answer = bind(client, body, namespace, name)
        overcommitted.extend(one for one in ("n1", "n2", "n3") if room(disturbed.stage, one, ours=True) < 0)
        return answer

    overcommitted: list[str] = []
    monkeypatch.setattr(Client, "_bind", checked)
    monkeypatch.setattr("phalanx.kube.write.writer._BACKOFF_S", (0.0,))
    clockwork.run(disturbed.run())
    assert disturbed.over(), disturbed.stage.api.bound()
    assert not overcommitted
