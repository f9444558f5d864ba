"""A gang of bare pods of which too few run is taken back when its grace period is over, and not before."""

from __future__ import annotations

import pytest

from phalanx.client.kind import PODS
from phalanx.kube.install.definitions import QUEUES
from tests.kube import test_kai as kai
from tests.kube.double import Object, node, pod
from tests.kube.stage import Stage
from tests.kube.test_bind_barrier import play, settle

PAIR = {"queue": "default", "job": "pair", "min_available": "2"}


async def running(stage: Stage, *pods: Object) -> None:
    stage.put(*pods)
    await stage.until(lambda: len(stage.api.bound()) == len(pods))
    for one in pods:
        stage.finish(one["metadata"]["name"], "Running")
    await settle(stage)


async def fails(stage: Stage, name: str) -> None:
    stage.finish(name, "Failed")
    await settle(stage)


async def after(stage: Stage, seconds: float) -> None:
    stage.now_s += seconds
    await settle(stage)


def pods(stage: Stage) -> list[str]:
    """Those that are not over."""
    found = stage.api.objects[PODS].values()
    return sorted(p["metadata"]["name"] for p in found if p["status"]["phase"] in ("Pending", "Running"))


def events(stage: Stage) -> list[str]:
    waiting = stage.world.effects.reporter._events  # no task sends them in this test
    return [str(one["message"]) for one in waiting if one["reason"] == "StaleGang"]


@pytest.mark.parametrize("said", [{}, {"staleness_grace_period": "2m"}])
def test_what_is_left_is_evicted_when_its_grace_period_is_over(said: dict[str, str]) -> None:
    grace_s = 120 if said else 60

    async def scene() -> None:
        stage = Stage(nodes=[node("n1", 8)])
        async with stage.scheduler():
            await running(stage, pod("a", **PAIR, **said), pod("b", **PAIR, **said))
            await fails(stage, "a")
            await after(stage, grace_s - 1)
            assert pods(stage) == ["b"]
            await after(stage, 2)
            assert pods(stage) == []
            assert "default/pair" not in stage.cluster.jobs
            first, last = events(stage)
            assert first.startswith(
                "1 of the 2 pods that it needs run; unless the missing pods return, it is taken back at"
            )
            assert "only 1 of the 2 pods that it needs ran, for" in last

    play(scene())


def test_pods_that_come_back_in_time_end_it() -> None:
    async def scene() -> None:
        stage = Stage(nodes=[node("n1", 8)])
        again = {**PAIR, "replaces_failed": "true"}
        async with stage.scheduler():
            await running(stage, pod("a", **again), pod("b", **again))
            await fails(stage, "a")
            await after(stage, 50)
            stage.put(pod("c", **again))
            await stage.until(lambda: "c" in stage.api.bound())
            await after(stage, 50)
            assert pods(stage) == ["b", "c"]
            await fails(stage, "c")  # a period of its own
            await after(stage, 50)
            assert pods(stage) == ["b"]

    play(scene())


def test_a_gang_that_is_ending_runs_on() -> None:
    async def scene() -> None:
        stage = Stage(nodes=[node("n1", 8)])
        async with stage.scheduler():
            await running(stage, pod("a", **PAIR), pod("b", **PAIR))
            stage.finish("a", "Succeeded")
            await after(stage, 1000)
            assert pods(stage) == ["b"]

    play(scene())


@pytest.mark.parametrize("spec", [{"stalenessGracePeriod": "0s"}, {"gang": False}])
def test_a_queue_may_let_them_run_on(spec: Object) -> None:
    async def scene() -> None:
        stage = Stage(nodes=[node("n1", 8)])
        stage.api.put(QUEUES, {"metadata": {"name": "default"}, "spec": spec})
        async with stage.scheduler():
            await running(stage, pod("a", **PAIR), pod("b", **PAIR))
            await fails(stage, "a")
            await after(stage, 1000)
            assert pods(stage) == ["b"]

    play(scene())


def test_surplus_pods_are_not_missed() -> None:
    async def scene() -> None:
        stage = Stage(nodes=[node("n1", 8)])
        async with stage.scheduler():
            await running(stage, *(pod(name, **PAIR) for name in "abc"))
            await fails(stage, "a")
            await after(stage, 1000)
            assert pods(stage) == ["b", "c"]

    play(scene())


def test_after_a_restart_members_that_wait_are_still_missed() -> None:
    """Its lost pod was replaced, and the replacement finds no capacity."""

    async def scene() -> None:
        stage = Stage(nodes=[node("n1", 1), node("n2", 1)])
        again = {**PAIR, "replaces_failed": "true"}
        async with stage.scheduler():
            await running(stage, pod("a", **again), pod("b", **again))
            await fails(stage, "a")
            stage.put_node({**node(stage.api.bound()["a"], 1), "spec": {"unschedulable": True}})
            stage.put(pod("c", **again))
            await settle(stage)
        async with stage.scheduler():
            await settle(stage)
            await after(stage, 59)
            assert pods(stage) == ["b", "c"]
            await after(stage, 2)
            assert pods(stage) == ["c"]
            assert stage.reason("pair").startswith("WaitingForMembers: ")

    play(scene())


@pytest.mark.parametrize(("said", "left_after_31_s"), [("30s", []), ("-1s", ["b"]), ("30", ["b"]), (None, ["b"])])
def test_kai_says_it_on_the_pod_group(said: str | None, left_after_31_s: list[str]) -> None:
    async def scene() -> None:
        stage = kai.stage_with()
        kai.pod_group(stage, "g", minMember=2, **({"stalenessGracePeriod": said} if said else {}))
        async with stage.scheduler():
            await running(stage, kai.pod("a", group="g"), kai.pod("b", group="g"))
            await fails(stage, "a")
            await after(stage, 31)
            assert pods(stage) == left_after_31_s
            await after(stage, 31)
            assert pods(stage) == (["b"] if said == "-1s" else [])

    play(scene())


def test_a_kai_gang_whose_pods_are_made_anew_waits_as_a_gang_again() -> None:
    async def scene() -> None:
        stage = kai.stage_with(cpu=2)
        kai.pod_group(stage, "g", minMember=2, stalenessGracePeriod="30s")
        async with stage.scheduler():
            await running(stage, kai.pod("a", group="g"), kai.pod("b", group="g"))
            await fails(stage, "a")
            await after(stage, 31)
            assert pods(stage) == []
            stage.put(kai.pod("c", group="g"))
            await settle(stage)
            assert "c" not in stage.api.bound()
            stage.put(kai.pod("d", group="g"))
            await stage.until(lambda: {"c", "d"} <= set(stage.api.bound()))

    play(scene())
