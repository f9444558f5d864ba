"""A seat of a lost bare pod is kept for its replacement, for as long as the hold of the start, and no longer."""

from __future__ import annotations

import pytest

from phalanx.client.kind import PODS
from phalanx.kube.install.definitions import QUEUES
from tests.kube.double import Object, node, pod
from tests.kube.stage import Stage
from tests.kube.test_bind_barrier import play, settle

NEVER_STALE = {"gang": True, "stalenessGracePeriod": "0s"}
HOLD_S = 600


def stage_with(*nodes: Object) -> Stage:
    stage = Stage(nodes=list(nodes))
    stage.api.put(QUEUES, {"metadata": {"name": "default"}, "spec": NEVER_STALE})
    return stage


def member(name: str, cpu: str = "1", *, least: int = 2) -> Object:
    return pod(name, cpu, queue="default", job="gang", min_available=str(least), replaces_failed="true")


async def after(stage: Stage, seconds: float) -> None:
    stage.now_s += seconds
    await settle(stage)


async def lost(stage: Stage, name: str) -> None:
    stage.api.drop(PODS, f"default/{name}")
    await settle(stage)


def placed(stage: Stage) -> int:
    return len(stage.cluster.jobs["default/gang"].placements)


@pytest.mark.parametrize("restarted", [False, True])
def test_the_seat_of_a_lost_pod_is_free_when_the_hold_ends(restarted: bool) -> None:
    async def hold_ends(stage: Stage) -> None:
        stage.put(pod("other", queue="default"))
        await after(stage, HOLD_S - 10)
        assert (set(stage.api.bound()), placed(stage)) == ({"b"}, 2)
        await after(stage, 11)
        assert (set(stage.api.bound()), placed(stage)) == ({"b", "other"}, 1)

    async def scene() -> None:
        stage = stage_with(node("n1", 2))
        async with stage.scheduler():
            stage.put(member("a"), member("b"))
            await stage.until(lambda: len(stage.api.bound()) == 2)
            await lost(stage, "a")
            if not restarted:
                await hold_ends(stage)
        if restarted:
            async with stage.scheduler():
                await hold_ends(stage)
        stage.put_node(node("n2", 2))
        async with stage.scheduler():  # after the hold, it keeps no seat, though there is capacity
            await settle(stage)
            assert placed(stage) == 1
            stage.put(member("c"))  # a late replacement
            await settle(stage)
            assert stage.api.bound() == {"b": "n1", "other": "n1", "c": "n2"}

    play(scene())


def test_the_seat_of_a_pod_that_was_lost_before_its_binding_is_free_when_the_hold_ends() -> None:
    """The other pod of its gang is bound, so the start is not taken back."""

    async def scene() -> None:
        stage = stage_with(node("n1", 2))
        stage.fault = lambda write: "not today" if write == "bind b" else None
        async with stage.scheduler():
            stage.put(member("a"), member("b"))
            await stage.until(lambda: bool(stage.api.bound()))
            await lost(stage, "b")
            stage.put(pod("other", queue="default"))
            await after(stage, 100)  # longer than a start may take
            assert set(stage.api.bound()) == {"a"}
            await after(stage, HOLD_S - 99)
            assert set(stage.api.bound()) == {"a", "other"}

    play(scene())


@pytest.mark.parametrize("replaced", [True, False])
def test_the_hold_of_a_pod_counts_from_its_loss(replaced: bool) -> None:
    """The pod is lost an hour after the start, when a new gang's hold would be over."""

    async def scene() -> None:
        stage = stage_with(node("n1", 2))
        async with stage.scheduler():
            stage.put(member("a"), member("b"))
            await stage.until(lambda: len(stage.api.bound()) == 2)
            await after(stage, 3600)
            await lost(stage, "a")
            stage.put(pod("other", queue="default"))
            await after(stage, HOLD_S - 10)
            assert set(stage.api.bound()) == {"b"}
            if replaced:
                stage.put(member("c"))
            await after(stage, 11)
            assert set(stage.api.bound()) == {"b", "c" if replaced else "other"}

    play(scene())


def test_a_hold_ends_also_if_another_pod_lacked_a_node_for_too_long() -> None:
    """Two pods of different sizes are lost, and only the smaller one is replaced."""

    async def scene() -> None:
        stage = stage_with(node("n1", 1), node("n2", 4))
        async with stage.scheduler():
            stage.put(member("small", least=3), member("large-1", "2", least=3), member("large-2", "2", least=3))
            await stage.until(lambda: len(stage.api.bound()) == 3)
            stage.put_node({**node("n1", 1), "spec": {"unschedulable": True}})
            await lost(stage, "small")
            await lost(stage, "large-2")
            stage.put(member("again", least=3))
            await after(stage, 301)  # longer than a pod of a started gang may lack a node
            assert set(stage.api.bound()) == {"large-1"}
            await after(stage, HOLD_S - 300)
            assert stage.api.bound() == {"large-1": "n2", "again": "n2"}

    play(scene())
