"""A PyTorchJob is one gang: it waits as its owner's `suspend`, is resumed by one write, bound and taken back whole."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from typing import Any

import pytest

from phalanx.client.kind import PODS
from phalanx.kube.read.workload.adapter import TRAINING_KINDS
from phalanx.model.plan import Preempt
from phalanx.model.reason import Reason, ReasonCode
from tests import clockwork
from tests.kube.double import Controller, Object, node
from tests.kube.stage import Stage
from tests.kube.test_bind_barrier import play, settle
from tests.kube.test_restart import Core, kill_at

PYTORCH = TRAINING_KINDS[0]
TENSORFLOW = next(kind for kind in TRAINING_KINDS if kind.name == "TFJob")
DIALECT = frozenset({"kubeflow"})


def training(workers: int, name: str = "t", **more: Any) -> Object:
    def replica(count: int) -> Object:
        container = {"name": "pytorch", "resources": {"requests": {"cpu": "1"}}}
        return {"replicas": count, "template": {"spec": {"schedulerName": "phalanx", "containers": [container]}}}

    meta = {"name": name, "namespace": "default", "labels": {"phalanx.dev/queue": "default"}, **more}
    spec = {"pytorchReplicaSpecs": {"Master": replica(1), "Worker": replica(workers)}, "runPolicy": {"suspend": True}}
    return {"apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob", "metadata": meta, "spec": spec}


def tensorflow(end: str = "") -> Object:
    """A TFJob `t` that nobody's operator runs. `end`: Succeeded or Failed, how it ended."""
    known = training(1)
    replicas = known["spec"]["pytorchReplicaSpecs"]
    spec = {"tfReplicaSpecs": {"Chief": replicas["Master"], "Worker": replicas["Worker"]}}
    status = {"status": {"conditions": [{"type": end, "status": "True"}]}} if end else {}
    return {**known, "kind": "TFJob", "spec": {**spec, "runPolicy": {"suspend": not end}}, **status}


class Operator(Controller):
    """The training operator beside the Job controller: pods by name while a job runs, none while it is suspended."""

    def turn(self) -> None:
        super().turn()
        for obj in list(self.api.objects[PYTORCH].values()):
            mine = [pod for pod in self.api.pods() if self._owner(pod) == obj["metadata"]["uid"]]
            if obj["spec"]["runPolicy"].get("suspend"):
                self._delete(pod for pod in mine if "deletionTimestamp" not in pod["metadata"])
                continue
            there = {pod["metadata"]["name"] for pod in mine}
            for kind, spec in obj["spec"]["pytorchReplicaSpecs"].items():
                for index in range(spec["replicas"]):
                    name = f"{obj['metadata']['name']}-{kind.lower()}-{index}"
                    if name not in there and not self.refuse(name, index):
                        self._make(obj, kind, name, spec["template"])

    def _owner(self, pod: Object) -> str:
        return str(pod["metadata"].get("ownerReferences", [{"uid": ""}])[0]["uid"])

    def _make(self, obj: Object, kind: str, name: str, template: Object) -> None:
        owner = {"kind": "PyTorchJob", "name": obj["metadata"]["name"], "uid": obj["metadata"]["uid"]}
        meta = {
            "name": name,
            "namespace": "default",
            "labels": {"training.kubeflow.org/replica-type": kind.lower()},
            "ownerReferences": [{**owner, "controller": True}],
        }
        self.api.put(PODS, {"metadata": meta, "spec": dict(template["spec"]), "status": {"phase": "Pending"}})


def stage(*sizes: int) -> Stage:
    found = Stage(nodes=[node(f"n{number}", size) for number, size in enumerate(sizes)], dialects=DIALECT)
    found.controller = Operator(found.api)
    return found


def suspended(here: Stage) -> bool:
    return bool(here.api.objects[PYTORCH]["default/t"]["spec"]["runPolicy"]["suspend"])


def bound(here: Stage) -> list[str]:
    return sorted(name.split("/")[-1] for name in here.api.bound())


def test_it_starts_whole_by_one_write() -> None:
    async def scene() -> None:
        here = stage(2, 2)
        here.api.put(PYTORCH, training(3))
        async with here.scheduler():
            await here.until(lambda: len(here.api.bound()) == 4)
            await settle(here)
            assert here.phase("t") == "running"
            assert bound(here) == ["t-master-0", "t-worker-0", "t-worker-1", "t-worker-2"]
            assert len([write for write in here.api.writes if "pytorchjobs" in write or "PyTorchJob" in write]) == 1

    play(scene())


def test_while_there_is_no_room_for_all_it_has_no_pods() -> None:
    async def scene() -> None:
        here = stage(2, 1)
        here.api.put(PYTORCH, training(3))
        async with here.scheduler():
            await settle(here)
            assert suspended(here)
            assert here.api.pods() == []
            here.put_node(node("n9", 1))
            await here.until(lambda: len(here.api.bound()) == 4)

    play(scene())


@pytest.mark.parametrize("end", ["Succeeded", "Failed"])
def test_one_that_is_over_holds_up_none_of_its_name_and_another_kind(end: str) -> None:
    async def scene() -> None:
        here = stage(4)
        here.api.put(TENSORFLOW, tensorflow(end))
        here.api.put(PYTORCH, training(3))
        async with here.scheduler():
            await here.until(lambda: len(here.api.bound()) == 4)
            await settle(here)
            assert here.phase("t") == "running"

    play(scene())


def test_two_of_one_name_are_told_by_their_kinds_and_the_end_of_one_lets_the_other_go() -> None:
    async def scene() -> None:
        here = stage(4)
        here.api.put(TENSORFLOW, tensorflow())
        here.api.put(PYTORCH, training(3))
        async with here.scheduler():
            await settle(here)
            spec = here.world.gangs["default/t"].spec
            assert spec is not None
            assert spec.job.blocked is not None
            assert "has 4 members (TFJob t, PyTorchJob t)" in spec.job.blocked.text
            assert not here.api.pods()
            here.api.put(
                TENSORFLOW, {**tensorflow("Failed"), "metadata": here.api.objects[TENSORFLOW]["default/t"]["metadata"]}
            )
            await here.until(lambda: len(here.api.bound()) == 4)

    play(scene())


def test_a_pod_that_cannot_be_created_takes_it_back_whole() -> None:
    async def scene() -> None:
        here = stage(4)
        here.controller = Operator(here.api, lambda name, k: "no" if name == "t-worker-2" else "")
        here.api.put(PYTORCH, training(3))
        async with here.scheduler():
            await here.until(lambda: len(here.api.pods()) == 3)
            await settle(here)
            assert here.api.bound() == {}
            here.now_s += 63
            await here.until(lambda: suspended(here) and not here.api.pods())
            assert "phalanx.dev/admitted" not in here.api.objects[PYTORCH]["default/t"]["metadata"]["annotations"]

    play(scene())


def test_it_gives_way_whole_and_comes_back() -> None:
    async def scene() -> None:
        here = stage(4)
        here.api.put(PYTORCH, training(3))
        async with here.scheduler():
            await here.until(lambda: len(here.api.bound()) == 4)
            await settle(here)
            why = Reason(code=ReasonCode.PREEMPTED, text="it gives way to default/b")
            here.decide(Preempt("default/t", 1, "default/b", why))
            await here.until(lambda: suspended(here) and not here.api.pods())
            said = here.api.objects[PYTORCH]["default/t"]["metadata"]["annotations"]
            assert json.loads(said["phalanx.dev/preempted"])["by"] == "default/b"
            assert said["phalanx.dev/preemptions"] == "1"
            await here.until(lambda: len(here.api.bound()) == 4)  # nobody else wants its room
            assert "phalanx.dev/preempted" not in here.api.objects[PYTORCH]["default/t"]["metadata"]["annotations"]

    play(scene())


def test_a_new_scheduler_goes_on_with_it() -> None:
    async def scene() -> None:
        here = stage(4)
        here.api.put(PYTORCH, training(3))
        async with here.scheduler():
            await here.until(lambda: len(here.api.bound()) >= 1)
        async with here.scheduler():
            await here.until(lambda: len(here.api.bound()) == 4)
            await settle(here)
            assert here.phase("t") == "running"
            assert not suspended(here)

    play(scene())


def test_without_the_dialect_it_is_none_of_ours() -> None:
    async def scene() -> None:
        here = Stage(nodes=[node("n1", 4)])
        here.controller = Operator(here.api)
        here.api.put(PYTORCH, training(3))
        async with here.scheduler():
            await settle(here)
            assert suspended(here)

    play(scene())


# --- killed at every write --------------------------------------------------------------------------------------------


async def started(number: int, how: str) -> Stage:
    """Killed at write `number`, and started again; the stage at rest."""
    here = stage(2, 2)
    here.api.put(PYTORCH, training(3))
    here.fault = kill_at(number, how)
    for _ in range(3):
        async with here.scheduler():
            await here.until(lambda: len(here.api.bound()) == 4)
            await settle(here, 8)
            if not here.killed:
                return here
    raise AssertionError("killed more than once")


@pytest.mark.slow
@pytest.mark.parametrize("how", ["kill", "kill after", "lost"])
def test_killed_at_every_write_it_starts_once(how: str) -> None:
    whole = clockwork.run(started(0, how)).api.writes
    assert len(whole) == 5  # one of the job, and a binding for each pod
    for number in range(1, len(whole) + 1):
        here = clockwork.run(started(number, how))
        assert Counter(here.api.writes) == Counter(whole), f"write {number} was {how}"
        assert here.phase("t") == "running"


async def given_way(number: int, how: str) -> Stage:
    here, core = stage(4, 4), Core("t", 0)
    here.api.put(PYTORCH, training(5))
    here.fault = kill_at(number, how)
    for _ in range(3):
        async with here.scheduler():
            for _ in range(400):
                await here.turn()
                core.think(here)
                if here.killed or (given(here) and here.world.effects.writer.idle):
                    break
                if not here.world.effects.writer.idle:
                    await asyncio.sleep(0.003)
            if not here.killed:
                return here
    raise AssertionError("killed more than once")


def given(here: Stage) -> bool:
    """Only the other one runs, whole."""
    return sorted(name.split("-")[0] for name in here.api.bound()) == ["b"] * 4 == ["b"] * len(here.api.pods())


@pytest.mark.slow
@pytest.mark.parametrize("how", ["kill", "kill after", "lost"])
def test_killed_while_it_gives_way_it_gives_way_whole(how: str) -> None:
    whole = clockwork.run(given_way(0, how)).api.writes
    assert len(whole) > 8
    for number in range(1, len(whole) + 1):
        here = clockwork.run(given_way(number, how))
        assert given(here), f"write {number} ({whole[number - 1]}) was {how}: {here.api.bound()}"
        assert suspended(here)
        assert not [record for record in here.cluster.jobs.values() if record.leaving]


def test_one_that_starts_anew_starts_with_all_of_its_pods() -> None:
    """A worker of the start before had succeeded. Its pod is gone with the others, and it has to run again."""

    async def scene() -> None:
        here = stage(4)
        here.api.put(PYTORCH, training(3))
        async with here.scheduler():
            await here.until(lambda: len(here.api.bound()) == 4)
            await settle(here)
            here.finish("t-worker-1")
            await settle(here)
            here.decide(Preempt("default/t", 1, "default/other", Reason(code=ReasonCode.PREEMPTED, text="room")))
            await here.until(lambda: not here.api.pods())
            await here.until(lambda: len(here.api.bound()) == 4)
            await settle(here)
            assert len(here.cluster.jobs["default/t"].placements) == 4

    play(scene())
