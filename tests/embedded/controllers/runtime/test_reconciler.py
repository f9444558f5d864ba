"""The loop of a controller reconciles its own objects, reports errors, and waits only for its own kind."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, cast

from phalanx.client.connection import Connection, Object
from phalanx.client.informer import Informer
from phalanx.client.kind import PODS, Kind
from phalanx.embedded.controllers.runtime.calls import Calls
from phalanx.embedded.controllers.runtime.reconciler import ControllerContext, Reconciler, Retry
from phalanx.embedded.controllers.runtime.recorder import EventRecorder

JOBS = Kind(group="batch.example", plural="jobs", name="Job")


def obj(kind: Kind, name: str, version: int, owner: str = "", **meta: Any) -> Object:
    named = {"name": name, "namespace": "n", "uid": f"u-{name}", "resourceVersion": str(version), **meta}
    if owner:
        named["ownerReferences"] = [{"apiVersion": owner, "kind": "Job", "name": "a", "uid": "u", "controller": True}]
    return {"apiVersion": kind.api_version, "kind": kind.name, "metadata": named}


class Told(EventRecorder):
    def __init__(self) -> None:
        self.events: list[tuple[str, str]] = []

    def tell(self, component: str, about: Object, type: str, reason: str, message: str) -> None:
        self.events.append((component, reason))


def played(
    scene: Callable[[Informer, Informer, list[str]], None], *, fails: bool = False, gather_s: float = 0.0
) -> tuple[list[str], Told]:
    """Return the reconciled objects in order, after a scene of changes."""

    async def run() -> tuple[list[str], Told]:
        nobody = cast(Connection, None)
        caches = {kind: Informer(nobody, kind) for kind in (JOBS, PODS)}
        looked: list[str] = []
        told = Told()

        class Jobs(Reconciler):
            kind, component = JOBS, "c"

            async def reconcile(self, job: Object) -> None:
                looked.append(job["metadata"]["name"])
                if fails:
                    raise KeyError("spec")

        calls = Calls(nobody, lambda kind: caches[kind])
        loop = Jobs(ControllerContext(calls=calls, recorder=told, retry=Retry(first_s=60.0)))
        loop.gather_s = gather_s
        loop.start()
        scene(caches[JOBS], caches[PODS], looked)
        working = asyncio.ensure_future(loop.run())
        await asyncio.sleep(0)
        assert looked == []  # no kind is listed yet
        for cache in caches.values():
            cache.synced.set()
        for _ in range(20):
            await asyncio.sleep(0)
        working.cancel()
        await asyncio.gather(working, return_exceptions=True)
        return looked, told

    return asyncio.run(run())


def test_an_object_is_looked_at_when_it_or_what_it_controls_changes() -> None:
    def scene(jobs: Informer, pods: Informer, looked: list[str]) -> None:
        jobs.observe(obj(JOBS, "a", 1))
        jobs.observe(obj(JOBS, "going", 2, deletionTimestamp="2026-01-01T00:00:00Z"))
        pods.observe(obj(PODS, "p", 3, owner="batch.example/v1alpha1"))

    assert played(scene)[0] == ["a"]


def test_changes_of_what_it_controls_are_gathered() -> None:
    def scene(jobs: Informer, pods: Informer, looked: list[str]) -> None:
        pods.observe(obj(PODS, "p", 1, owner="batch.example/v1alpha1"))
        jobs.objects["n/a"] = obj(JOBS, "a", 2)  # the object exists, and no event about it was sent

    assert played(scene)[0] == ["a"]
    assert played(scene, gather_s=60.0)[0] == []


def test_a_pod_of_a_job_of_another_group_is_another_controllers() -> None:
    def scene(jobs: Informer, pods: Informer, looked: list[str]) -> None:
        pods.observe(obj(PODS, "p", 1, owner="batch/v1"))
        jobs.objects["n/a"] = obj(JOBS, "a", 2)  # the object exists, and no event about it was sent

    assert played(scene)[0] == []


def test_what_it_cannot_deal_with_is_said_at_the_object() -> None:
    looked, told = played(lambda jobs, pods, looked: cast(None, jobs.observe(obj(JOBS, "a", 1))), fails=True)
    assert looked == ["a"]
    assert told.events == [("c", "ReconcileError")]
