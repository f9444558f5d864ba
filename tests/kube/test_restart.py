"""Points 3, 8 and 14 of the protocol: killed between any two writes and started again, nothing is lost and nothing is
started twice."""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from collections.abc import Callable

import pytest

from phalanx.client.kind import JOBS, PODS, STORAGE_CLASSES, VOLUME_CLAIMS
from phalanx.kube.install.definitions import QUEUES
from phalanx.kube.read.labels import ADMITTED, HOLD
from phalanx.kube.read.records import RecordKey
from phalanx.kube.write.pod_effects import SELECTED_NODE
from phalanx.model.job import Phase
from phalanx.model.plan import Preempt, Shrink
from phalanx.model.reason import Reason, ReasonCode
from tests import clockwork
from tests.kube.double import Controller, Object, OtherScheduler, job, node, pod
from tests.kube.stage import Stage
from tests.kube.test_volumes import bind_volume, claim, storage_class, using
from tests.seeds import mostly_slow

NODES = [node("n1"), node("n2")]
HOW = ("kill", "kill after", "lost")

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


@pytest.mark.slow
@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize("name", SCENARIOS)
def test_killed_at_every_write(name: str, how: str) -> None:
    whole = clockwork.run(run_through(name, 0, how)).api.writes
    for number in range(1, len(whole) + 1):
        stage = clockwork.run(run_through(name, number, how))
        assert Counter(stage.api.writes) == Counter(whole), f"write {number} was {how}"
        assert all(record.phase == "running" for record in stage.cluster.jobs.values())
        assert len(stage.api.pods()) == SCENARIOS[name][1]


# --- somebody gives way -----------------------------------------------------------------------------------------------


def either(name: str, pods: int) -> Object:
    """One of two Jobs that are a group of which one is enough."""
    made = job(name, pods, job="a", job_roles="2", subgroup="either")
    made["metadata"]["annotations"] = {"phalanx.dev/subgroups": '[{"name": "either", "minimum": 1}]'}
    return made


# name -> (the first objects, the name of their gang, its pods that run in the end beside the 4 of `b`)
WAYS: dict[str, tuple[list[Object], str, int]] = {
    "a Job": ([job("a", 6)], "a", 0),
    "two Jobs": ([job("ps", 2, job="a", job_roles="2"), job("w", 4, job="a", job_roles="2")], "a", 0),
    "bare pods": ([pod(f"p{i}", job="a", min_available="5") for i in range(5)], "a", 0),
    "a member of a group": ([either("l", 2), either("r", 4)], "a", 2),
    "an elastic Job": ([job("a", 8, min_available="4")], "a", 4),
}
WHY = Reason(code=ReasonCode.PREEMPTED, text="it gives way to default/b")


class Core:
    """Decide like the core: preempt the running gang, whole or in part, as long as `b` is pending."""

    def __init__(self, victim: str, left: int) -> None:
        self.victim, self.left = f"default/{victim}", left

    def think(self, stage: Stage) -> None:
        record, waiting = stage.cluster.jobs.get(self.victim), stage.cluster.jobs.get("default/b")
        if record is None or record.phase is not Phase.RUNNING:
            return
        if "default/b" not in stage.api.objects[JOBS]:
            stage.put(important(job("b", 4)))
        elif waiting is not None and waiting.phase is Phase.QUEUED and not record.leaving:
            slots = sorted(record.placements)[self.left :]
            shrink = Shrink(self.victim, tuple(slots), "default/b", WHY)
            whole = Preempt(self.victim, record.attempt, "default/b", WHY)
            if slots and len(record.placements) > self.left:
                stage.decide(shrink if self.left else whole)


def important(obj: Object) -> Object:
    obj["spec"]["template"]["spec"]["priority"] = 1000
    return obj


async def give_way(name: str, number: int, how: str) -> Stage:
    objects, victim, left = WAYS[name]
    stage, core = Stage(nodes=NODES, seed=number), Core(victim, left)
    stage.put(*objects)
    stage.fault = kill_at(number, how)
    for _ in range(3):
        async with stage.scheduler():
            for _ in range(400):
                await stage.turn()
                core.think(stage)
                if stage.killed or (_over(stage, left) and stage.world.effects.writer.idle):
                    break
                if not stage.world.effects.writer.idle:
                    await asyncio.sleep(0.003)
            if not stage.killed:
                return stage
    raise AssertionError("killed more than once")


def verbs(writes: list[str]) -> Counter[str]:
    """How often each kind of write was made: which of several Jobs gets its pods first is chance."""
    return Counter(re.sub(r"[-\d]+$|(?<=bind ).*", "", write) for write in writes)


def _over(stage: Stage, left: int) -> bool:
    """`b` runs, and nothing more of the other than is to be left."""
    bound, record = stage.api.bound(), stage.cluster.jobs.get("default/b")
    if record is None or record.phase is not Phase.RUNNING:
        return False
    return sum(name.startswith("b-") for name in bound) == 4 and len(bound) == len(stage.api.pods()) == 4 + left


@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize("name", mostly_slow([*WAYS], fast=1))
def test_killed_while_somebody_gives_way(name: str, how: str) -> None:
    whole = clockwork.run(give_way(name, 0, how)).api.writes
    assert len(whole) > 8
    for number in range(1, len(whole) + 1):
        stage = clockwork.run(give_way(name, number, how))
        assert _over(stage, WAYS[name][2]), f"write {number} ({whole[number - 1]}) was {how}: {stage.api.bound()}"
        assert not [record for record in stage.cluster.jobs.values() if record.leaving]
        if not WAYS[name][2]:  # a gang that keeps running may grow for a moment
            assert verbs(stage.api.writes) == verbs(whole), f"write {number} was {how}"


# --- the rest of the writes: taking back, letting go, telling claims, saying what a kubelet refused ------------------


def taken_back(stage: Stage) -> None:
    """A quota refuses pod 3 of 4 twice, and then no more."""
    refusing = [True]
    stage.controller = Controller(stage.api, lambda name, k: "quota" if refusing and k == 3 else "")
    stage.put(job("j", 4))
    stage.events = lambda: refusing.clear() if stage.now_s > 1100 else None
    stage.pace_s = 1.0


def pinned(stage: Stage) -> None:
    other = OtherScheduler(stage.api)
    stage.put(job("j", 4, scheduler="default-scheduler"))
    stage.events = other.turn


def with_claims(stage: Stage) -> None:
    """A provisioner makes the volumes of two claims as soon as it knows for which node."""
    stage.api.put(STORAGE_CLASSES, storage_class())
    for name in ("d0", "d1"):
        stage.api.put(VOLUME_CLAIMS, claim(name))
        stage.put(using(pod(f"p-{name}", job="t", min_available="2"), name))

    def provision() -> None:
        for obj in list(stage.api.objects[VOLUME_CLAIMS].values()):
            if SELECTED_NODE in obj["metadata"].get("annotations", {}) and obj["status"]["phase"] != "Bound":
                bind_volume(stage, obj["metadata"]["name"])

    stage.events = provision


def rejected(stage: Stage) -> None:
    stage.put(job("j", 3))

    def reject() -> None:
        if "j-1" in stage.api.bound() and stage.api.objects[PODS]["default/j-1"]["status"]["phase"] == "Pending":
            stage.finish("j-1", "Failed", "OutOfcpu")

    stage.events = reject


# name -> (set-up, the pods that are bound in the end, the write at which the scheduler must be killed)
OTHERS: dict[str, tuple[Callable[[Stage], None], int, str]] = {
    "taken back": (taken_back, 4, "patch jobs/j"),
    "pinned": (pinned, 4, "patch pods/j-1"),
    "claims": (with_claims, 2, "patch persistentvolumeclaims/d0"),
    "rejected": (rejected, 4, "patch jobs/j"),
}


async def play_out(name: str, number: int, how: str) -> Stage:
    set_up, pods, _ = OTHERS[name]
    stage = Stage(nodes=NODES, seed=number)
    set_up(stage)
    stage.fault = kill_at(number, how)
    for _ in range(3):
        async with stage.scheduler():
            for _ in range(300):
                if stage.killed or (len(stage.api.bound()) == pods and stage.world.effects.writer.idle):
                    break
                await stage.turn()
                stage.events()
                stage.now_s += stage.pace_s
                if not stage.world.effects.writer.idle:
                    await asyncio.sleep(0.002)
            for _ in range(8):
                await stage.turn()
            if not stage.killed:
                return stage
    raise AssertionError("killed more than once")


@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize("name", mostly_slow([*OTHERS][::-1], fast=3))
def test_killed_at_each_other_kind_of_write(name: str, how: str) -> None:
    whole = clockwork.run(play_out(name, 0, how)).api.writes
    assert OTHERS[name][2] in whole
    for number in range(1, len(whole) + 1):
        stage = clockwork.run(play_out(name, number, how))
        assert len(stage.api.bound()) == OTHERS[name][1], f"write {number} ({whole[number - 1]}) was {how}"
        assert all(record.phase is Phase.RUNNING for record in stage.cluster.jobs.values())
        bindings = Counter(write for write in stage.api.writes if write.startswith("bind"))
        assert set(bindings.values()) <= {1}, "nothing is bound twice"


# --- held, when starts come to nothing --------------------------------------------------------------------------------


def held(stage: Stage) -> bool:
    said = stage.api.job("j")["metadata"].get("annotations") or {}
    return HOLD in said and not stage.api.pods()


async def stall_until_held(number: int, how: str) -> Stage:
    """No pod ever becomes ready: three starts in a row are taken back, and then the Job is held."""
    stage = Stage(nodes=[node("n1", 4)], seed=number)
    stage.api.put(QUEUES, {"metadata": {"name": "default"}, "spec": {"gang": True, "startTimeout": "60s"}})
    stage.put(job("j", 2))
    stage.fault = kill_at(number, how)
    for _ in range(3):
        async with stage.scheduler():
            for _ in range(600):
                if stage.killed or (held(stage) and stage.world.effects.writer.idle):
                    break
                await stage.turn()
                stage.now_s += 5.0
                if not stage.world.effects.writer.idle:
                    await asyncio.sleep(0.002)
            if not stage.killed:
                return stage
    raise AssertionError("killed more than once")


@pytest.mark.slow
@pytest.mark.parametrize("how", HOW)
def test_killed_on_the_way_to_being_held(how: str) -> None:
    """A restart resets the count of starts, so one more start is possible; the whole Job is held once."""
    whole = clockwork.run(stall_until_held(0, how)).api.writes
    assert Counter(write.split("/")[0] for write in whole)["patch jobs"] >= 6, "three times resumed and taken back"
    for number in range(1, len(whole) + 1):
        stage = clockwork.run(stall_until_held(number, how))
        where = f"write {number} ({whole[number - 1]}) was {how}"
        assert held(stage), where
        found = stage.api.job("j")
        assert found["spec"]["suspend"], where
        assert found["metadata"]["annotations"][HOLD] == "3 starts in a row failed", where
        assert ADMITTED not in found["metadata"]["annotations"], where


# --- what the next scheduler has to be told ---------------------------------------------------------------------------


def running(stage: Stage, name: str) -> bool:
    record = stage.cluster.jobs.get(f"default/{name}")
    return record is not None and record.phase is Phase.RUNNING


def finished(name: str, condition: str) -> Object:
    return {**job(name, 1), "status": {"conditions": [{"type": condition, "status": "True"}]}}


def test_jobs_that_are_over_still_answer_those_that_wait_for_them() -> None:
    async def scene() -> None:
        stage = Stage(nodes=NODES)
        stage.put(finished("fine", "Complete"), finished("broken", "Failed"))
        stage.put(*(job(name, 1, job="two", job_roles="2") for name in ("half", "other")))
        stage.put(job("a", 1), job("b", 1), job("c", 1), job("d", 1))
        for name, after in (("a", "fine:ok"), ("b", "broken:ok"), ("c", "broken:not-ok"), ("d", "two:ok")):
            stage.change(name, {}, {"phalanx.dev/after": after})
        for name in ("half", "other"):  # a gang is over when all of it is
            stage.api.put(JOBS, {**stage.api.job(name), "status": finished(name, "Complete")["status"]})
        async with stage.scheduler():
            await stage.until(lambda: len(stage.api.bound()) == 3)
            assert sorted(name[0] for name in stage.api.bound()) == ["a", "c", "d"]
            assert stage.reason("b").startswith("DependencyNever")

    clockwork.run(scene())


@pytest.mark.slow
def test_how_often_a_job_was_preempted_survives_while_it_waits_and_while_it_runs() -> None:
    async def scene() -> None:
        stage = Stage(nodes=NODES)
        stage.put(job("a", 4))
        for times in (1, 2):
            async with stage.scheduler():
                await stage.until(lambda: running(stage, "a"))
                attempt = stage.cluster.jobs["default/a"].attempt
                stage.controller.slow = True
                stage.decide(Preempt("default/a", attempt, "default/b", WHY))
                await stage.until(lambda: bool(stage.api.job("a")["spec"]["suspend"]))
            stage.controller.slow = False
            async with stage.scheduler():
                await stage.turn()
                assert stage.cluster.jobs["default/a"].preempted == times
                await stage.until(lambda: running(stage, "a"))
            async with stage.scheduler():
                await stage.turn()
                assert stage.phase("a") is Phase.RUNNING
                assert stage.cluster.jobs["default/a"].preempted == times

    clockwork.run(scene())


# --- what the writes carry, and in which order claims are taken up --------------------------------------------------


def test_a_binding_never_hits_another_pod_of_the_same_name() -> None:
    """The pod is deleted and made anew, larger, right before its binding arrives."""

    async def scene() -> None:
        stage = Stage(nodes=[node("n1", 4)])
        left = ["bind p"]

        def fault(write: str) -> str | None:
            if write in left:
                left.clear()
                stage.api.drop(PODS, "default/p")
                stage.put(pod("p", "8"))
            return None

        stage.fault = fault
        stage.put(pod("p"))
        async with stage.scheduler():
            for _ in range(20):
                await stage.turn()
                await asyncio.sleep(0.5)
            assert not left
            assert stage.api.bound() == {}

    clockwork.run(scene())


def test_who_has_a_pod_on_a_node_is_taken_up_before_who_has_none() -> None:
    """Room for one more: the gang that runs in part is completed, though the other was admitted before."""

    async def scene() -> None:
        stage = Stage(nodes=[node("n1", 3)])
        stage.key = RecordKey(secret=b"", since_s=4e9)  # these starts are from before there was one
        for name, at_s, bound in (("a", 1.0, 0), ("z", 2.0, 1)):
            made = job(name, 2)
            record = f'{{"attempt":1,"queue":"default","count":2,"at_s":{at_s}}}'
            made["metadata"]["annotations"] = {ADMITTED: record}
            made["spec"]["suspend"] = False
            made = stage.api.put(JOBS, made)
            owner = {"kind": "Job", "name": name, "uid": made["metadata"]["uid"], "controller": True}
            for number in range(2):
                meta = {"name": f"{name}-{number}", "namespace": "default", "labels": {"job": name}}
                spec = {**made["spec"]["template"]["spec"], **({"nodeName": "n1"} if number < bound else {})}
                one = {"metadata": {**meta, "ownerReferences": [owner]}, "spec": spec, "status": {"phase": "Pending"}}
                stage.api.put(PODS, one)
        async with stage.scheduler():
            for _ in range(12):
                await stage.turn()
            assert sorted(stage.api.bound()) == ["z-0", "z-1"]

    clockwork.run(scene())
