"""From when the time of a simulated pod counts: all pods of its job are ready."""

from __future__ import annotations

from typing import Any

from phalanx.client.informer import Change
from phalanx.client.kind import JOBS
from phalanx.embedded.node.simulated.stages import SimulatedGangs
from tests.embedded.node.objects import Object, pod

LABELLED = {"labels": {"phalanx.dev/job": "train"}}


def job(name: str, meta: Object | None = None, **spec: Any) -> Object:
    return {"metadata": {"name": name, "namespace": "default", "uid": f"uid-{name}", **(meta or {})}, "spec": spec}


def of(owner: Object, name: str, meta: Object | None = None) -> Object:
    reference = {"kind": "Job", "name": owner["metadata"]["name"], "uid": owner["metadata"]["uid"], "controller": True}
    return pod(name=name, meta={**(meta or {}), "ownerReferences": [reference]})


class World(SimulatedGangs):
    """Remembers whose time began."""

    def __init__(self, *jobs: Object) -> None:
        self.begun: list[str] = []
        super().__init__(lambda one: self.begun.append(one["metadata"]["name"]))
        for one in jobs:
            self.learn(one)

    def learn(self, one: Object) -> None:
        self.take_job(Change(kind=JOBS, old=None, new=one))


def test_a_pod_on_its_own_begins_at_once() -> None:
    world = World()
    world.is_ready(pod(name="a"))
    world.is_ready(pod(name="a"))
    assert world.begun == ["a"]


def test_a_job_begins_when_its_last_pod_is_ready() -> None:
    owner = job("j", parallelism=3, completions=2)
    world = World(owner)
    world.is_ready(of(owner, "a"))
    assert world.begun == []
    world.is_ready(of(owner, "b"))
    assert world.begun == ["a", "b"]
    world.is_over("uid-a")
    world.is_ready(of(owner, "again"))  # a replacement runs its own time from when it joins
    assert world.begun == ["a", "b", "again"]


def test_a_job_that_was_suspended_begins_anew() -> None:
    owner = job("j", parallelism=2)
    world = World(owner)
    for name in ("a", "b"):
        world.is_ready(of(owner, name))
    for name in ("a", "b"):
        world.is_over(f"uid-{name}")
    world.begun.clear()
    world.is_ready(of(owner, "c"))
    assert world.begun == []


def test_a_job_that_is_told_after_its_pods() -> None:
    owner = job("j", LABELLED, parallelism=2)
    world = World()
    for name in ("a", "b"):
        world.is_ready(of(owner, name))
    assert world.begun == []
    world.learn(owner)
    assert world.begun == ["a", "b"]


def test_a_gang_of_two_jobs_begins_with_both() -> None:
    roles = {"annotations": {"phalanx.dev/job-roles": "2"}, **LABELLED}
    servers, workers = job("ps", roles, parallelism=1), job("worker", roles, parallelism=2)
    world = World(servers)
    world.is_ready(of(servers, "ps-0", roles))
    assert world.begun == []
    world.learn(workers)
    world.is_ready(of(workers, "w-0", roles))
    assert world.begun == []
    world.is_ready(of(workers, "w-1", roles))
    assert world.begun == ["ps-0", "w-0", "w-1"]


def test_bare_pods_say_how_many_they_are() -> None:
    meta = {"labels": {"phalanx.dev/job": "g", "phalanx.dev/min-available": "2"}}
    world = World()
    world.is_ready(pod(name="a", meta=meta))
    assert world.begun == []
    world.is_ready(pod(name="b", meta=meta))
    assert world.begun == ["a", "b"]
