"""A member that goes before the barrier: nothing of its gang is bound without it. Pods whose Job vanished are
nobody's."""

from __future__ import annotations

import pytest

from phalanx.client.kind import JOBS, PODS
from tests.kube.double import Controller, Object, job, node
from tests.kube.stage import Stage
from tests.kube.test_bind_barrier import play, settle

PAIR = {"job": "pair", "job_roles": "2"}


def halfway(stage: Stage, name: str, pods: int) -> None:
    """Let only `pods` pods of the Job `name` be created."""
    stage.controller = Controller(stage.api, lambda job, k: "no" if (job, k) == (name, pods) else "")


def failed(obj: Object) -> Object:
    return {**obj, "status": {"conditions": [{"type": "Failed", "status": "True"}]}}


@pytest.mark.parametrize("how", ["deleted", "failed"])
@pytest.mark.parametrize("restarted", [False, True])
def test_a_job_that_goes_at_the_barrier_leaves_no_pod_bound(how: str, restarted: bool) -> None:
    """3 of its 4 pods exist, and the garbage collector is slow."""

    async def scene() -> None:
        stage = Stage(nodes=[node("n1", 8)])
        halfway(stage, "j", 3)
        stage.put(job("j", 4))
        async with stage.scheduler():
            await stage.until(lambda: len(stage.api.pods("j")) == 3)
            await settle(stage)
            if not restarted:
                go(stage, "j", how)
                await settle(stage)
        if restarted:
            go(stage, "j", how)
            async with stage.scheduler():
                await settle(stage)
        assert stage.api.bound() == {}

    play(scene())


def go(stage: Stage, name: str, how: str) -> None:
    stage.controller.collects = False
    if how == "deleted":
        stage.api.drop(JOBS, f"default/{name}")
    else:
        stage.api.put(JOBS, failed(stage.api.job(name)))


@pytest.mark.parametrize("how", ["deleted", "failed"])
@pytest.mark.parametrize("restarted", [False, True])
def test_of_two_jobs_neither_starts_without_the_other(how: str, restarted: bool) -> None:
    async def scene() -> None:
        stage = Stage(nodes=[node("n1", 8)])
        halfway(stage, "w", 1)
        stage.put(job("ps", 1, **PAIR), job("w", 4, **PAIR))
        async with stage.scheduler():
            await stage.until(lambda: len(stage.api.pods()) == 2)
            await settle(stage)
            if not restarted:
                go(stage, "w", how)
                await settle(stage)
                await back(stage)
        if restarted:
            go(stage, "w", how)
            async with stage.scheduler():
                await settle(stage)
                await back(stage)

    async def back(stage: Stage) -> None:
        assert stage.api.bound() == {}
        await stage.until(lambda: bool(stage.api.job("ps")["spec"]["suspend"]))
        await settle(stage)
        assert not [pod for pod in stage.api.pods("ps") if pod["status"]["phase"] == "Pending"]

    play(scene())


def test_a_job_that_asks_for_fewer_at_the_barrier_is_planned_anew() -> None:
    async def scene() -> None:
        stage = Stage(nodes=[node("n1", 8)])
        halfway(stage, "j", 3)
        stage.put(job("j", 4))
        async with stage.scheduler():
            await stage.until(lambda: len(stage.api.pods("j")) == 3)
            await settle(stage)
            stage.change("j", {"parallelism": 2, "completions": 2})
            stage.controller = Controller(stage.api)
            stage.controller.made = 100
            await stage.until(lambda: len(stage.api.bound()) == 2)
            await settle(stage)
            assert stage.phase("j") == "running"
            assert len(stage.api.bound()) == 2

    play(scene())


def test_pods_whose_job_vanished_are_bound_by_nobody() -> None:
    """The job controller has not collected them yet: they must not start as bare pods."""

    async def scene() -> None:
        stage = Stage(nodes=[node("n1", 1)])
        stage.put(job("first", 1), job("j", 1))
        async with stage.scheduler():
            await stage.until(lambda: len(stage.api.bound()) == 1)
            template = stage.api.job("j")["spec"]["template"]["spec"]
            owner = {"kind": "Job", "name": "j", "uid": stage.api.job("j")["metadata"]["uid"], "controller": True}
            meta = {"name": "j-1", "namespace": "default", "labels": {"job": "j"}, "ownerReferences": [owner]}
            stage.api.put(PODS, {"metadata": meta, "spec": template, "status": {"phase": "Pending"}})
            await idle(stage)
            stage.api.drop(JOBS, "default/j")
            await idle(stage)
            stage.put_node(node("n2", 4))
            await idle(stage)
            assert list(stage.api.bound()) == ["first-1"]
        async with stage.scheduler():
            await idle(stage)
            assert list(stage.api.bound()) == ["first-1"]

    async def idle(stage: Stage) -> None:
        for _ in range(12):
            await stage.turn(controller=False)

    play(scene())
