"""Bare pods are marked, and then evicted one by one; PodDisruptionBudgets are asked first."""

from __future__ import annotations

import asyncio

from phalanx.client.kind import DISRUPTION_BUDGETS, PODS
from phalanx.model.job import Phase, Slot
from phalanx.model.plan import Preempt, Shrink
from phalanx.model.reason import Reason, ReasonCode
from tests import clockwork
from tests.kube.double import node, pod
from tests.kube.stage import Stage

WHY = Reason(code=ReasonCode.PREEMPTED, text="it gives way to default/b", numbers={"by": "default/b"})


def preempt(name: str, grace_s: float | None = None) -> Preempt:
    return Preempt(f"default/{name}", 1, "default/b", WHY, grace_s)


def running(stage: Stage, name: str) -> bool:
    return f"default/{name}" in stage.cluster.jobs and stage.phase(name) is Phase.RUNNING


def test_bare_pods_are_marked_before_the_first_is_evicted() -> None:
    async def scene() -> None:
        stage = Stage(nodes=[node("n1")])
        stage.put(*(pod(f"p{i}", job="t", min_available="3") for i in range(3)))
        async with stage.scheduler():
            await stage.until(lambda: running(stage, "t"))
            writes = len(stage.api.writes)
            stage.decide(preempt("t"))
            await stage.until(lambda: "default/t" not in stage.cluster.jobs)
            verbs = [write.split()[0] for write in stage.api.writes[writes:]]
            assert verbs == ["patch"] * 3 + ["evict"] * 3
            assert not stage.api.pods()

    clockwork.run(scene())


def test_a_budget_keeps_bare_pods_and_spares_them_for_a_while() -> None:
    async def scene() -> None:
        stage = Stage(nodes=[node("n1")])
        stage.put(*(pod(f"p{i}", job="t", min_available="3") for i in range(3)))
        budget = {"metadata": {"name": "keep", "namespace": "default"}, "spec": {"selector": {}}}
        stage.api.put(DISRUPTION_BUDGETS, {**budget, "status": {"disruptionsAllowed": 2}})
        async with stage.scheduler():
            await stage.until(lambda: running(stage, "t"))
            writes = len(stage.api.writes)
            stage.decide(preempt("t"))
            assert stage.phase("t") is Phase.STOPPING
            await stage.until(lambda: stage.phase("t") is Phase.RUNNING)
            assert stage.api.writes[writes:] == []
            assert not stage.cluster.jobs["default/t"].job.preemptible
            stage.now_s += 301.0
            await stage.until(lambda: stage.cluster.jobs["default/t"].job.preemptible)

    clockwork.run(scene())


def test_a_budget_that_lets_one_of_two_victims_go_keeps_both() -> None:
    """Each is a job of its own, and the budget would let each go: seen on kube-apiserver 1.36, where one was evicted
    for nothing and the other stayed for ever."""

    async def scene() -> None:
        stage = Stage(nodes=[node("n1")])
        stage.put(pod("a"), pod("b"))
        budget = {"metadata": {"name": "keep", "namespace": "default"}, "spec": {"selector": {}}}
        stage.api.put(DISRUPTION_BUDGETS, {**budget, "status": {"disruptionsAllowed": 1}})
        async with stage.scheduler():
            names = ["pod:a", "pod:b"]
            await stage.until(lambda: all(running(stage, name) for name in names))
            writes = len(stage.api.writes)
            stage.decide(*(preempt(name) for name in names))
            await stage.until(lambda: all(stage.phase(name) is Phase.RUNNING for name in names))
            assert stage.api.writes[writes:] == []
            assert not any(stage.cluster.jobs[f"default/{name}"].job.preemptible for name in names)

    clockwork.run(scene())


def a_budget_that_gives_in(stage: Stage, verb: str, times: int) -> list[str]:
    """The first write of that verb comes through, the next are refused so often; returns those that were."""
    seen, refused = list[str](), list[str]()

    def fault(write: str) -> str | None:
        if not write.startswith(verb):
            return None
        seen.append(write)
        if len(seen) == 1 or len(refused) >= times:
            return None
        refused.append(write)
        return "busy: it would violate the pod's disruption budget"

    stage.fault = fault
    return refused


def test_a_budget_in_the_middle_of_a_preemption_delays_it() -> None:
    """The preemption is completed when the budget allows it; otherwise the other victims would have left in vain."""

    async def scene() -> None:
        stage = Stage(nodes=[node("n1")])
        stage.put(*(pod(f"p{i}", job="t", min_available="3") for i in range(3)))
        async with stage.scheduler():
            await stage.until(lambda: running(stage, "t"))
            refused = a_budget_that_gives_in(stage, "evict", 3)
            stage.decide(preempt("t"))
            for _ in range(40):
                await stage.turn()
                await asyncio.sleep(1.0)
            assert len(refused) == 3
            assert not stage.api.pods()

    clockwork.run(scene())


def test_a_budget_in_the_middle_of_giving_up_pods_delays_it() -> None:
    async def scene() -> None:
        stage = Stage(nodes=[node("n1", 4)])
        stage.put(*(pod(f"p{i}", job="t", min_available="2") for i in range(4)))
        async with stage.scheduler():
            await stage.until(lambda: running(stage, "t"))
            refused = a_budget_that_gives_in(stage, "evict", 1)
            stage.decide(Shrink("default/t", (Slot(0, 2), Slot(0, 3)), "default/b", WHY))
            for _ in range(20):
                await stage.turn()
                await asyncio.sleep(1.0)
            assert len(refused) == 1
            assert len(stage.api.pods()) == 2
            assert len(stage.cluster.jobs["default/t"].placements) == 2

    clockwork.run(scene())


def test_surplus_bare_pods_are_evicted_by_name() -> None:
    async def scene() -> None:
        stage = Stage(nodes=[node("n1", 4)])
        stage.put(*(pod(f"p{i}", job="t", min_available="2") for i in range(4)))
        async with stage.scheduler():
            await stage.until(lambda: len(stage.api.bound()) == 4)
            await stage.until(lambda: running(stage, "t"))
            gone = stage.world.gangs["default/t"].state.parts.start.seats[Slot(0, 3)].pod
            stage.decide(Shrink("default/t", (Slot(0, 3),), "default/b", WHY))
            await stage.until(lambda: len(stage.cluster.jobs["default/t"].placements) == 3)
            assert gone not in {one["metadata"]["uid"] for one in stage.api.objects[PODS].values()}
            assert running(stage, "t")

    clockwork.run(scene())
