"""A Command is carried out on what the server has, also where no cache has it yet; nothing is Closed by a list that was
not read yet."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, cast

from phalanx.client.connection import ApiRefusal, Connection, Object
from phalanx.client.informer import Informer
from phalanx.client.kind import Kind
from phalanx.embedded.controllers.operators.volcano.commands import CommandController, QueueController
from phalanx.embedded.controllers.operators.volcano.kinds import COMMANDS, JOBS, POD_GROUPS, QUEUES
from phalanx.embedded.controllers.runtime.calls import Calls
from phalanx.embedded.controllers.runtime.reconciler import ControllerContext, Retry
from phalanx.embedded.controllers.runtime.recorder import EventRecorder


class Quiet(EventRecorder):
    def __init__(self) -> None:
        pass

    def tell(self, component: str, about: Object, type: str, reason: str, message: str) -> None:
        pass


def obj(kind: Kind, name: str, version: int = 1, **fields: Any) -> Object:
    meta = {"name": name, "uid": f"u-{name}", "resourceVersion": str(version)}
    if kind.namespaced:
        meta["namespace"] = "default"
    return {"apiVersion": kind.api_version, "kind": kind.name, "metadata": meta, **fields}


class Server:
    """Has objects by their paths, which no cache has been told of, and takes deletions and merges of a status."""

    def __init__(self, *objects: tuple[Kind, Object]) -> None:
        self.objects = {
            kind.path(one["metadata"].get("namespace", ""), one["metadata"]["name"]): one for kind, one in objects
        }
        self.asked: list[str] = []

    async def get(self, kind: Kind, name: str, namespace: str = "") -> Object:
        path = kind.path(namespace, name)
        self.asked.append(path)
        if path not in self.objects:
            raise ApiRefusal(404, "NotFound", f"{path} is not there")
        return self.objects[path]

    async def delete(self, kind: Kind, name: str, namespace: str, body: Object) -> Object:
        return self.objects.pop(kind.path(namespace, name))

    async def patch(
        self, kind: Kind, name: str, body: Object, namespace: str, subresource: str, content_type: str
    ) -> Object:
        path = kind.path(namespace, name)
        old = self.objects[path]
        self.objects[path] = {**old, "status": {**(old.get("status") or {}), **body["status"]}}
        return self.objects[path]

    def states(self) -> dict[str, str]:
        return {name: (one.get("status") or {}).get("state", "") for name, one in self.objects.items()}


def close(target: Object) -> tuple[Kind, Object]:
    named = {"name": target["metadata"]["name"], "uid": target["metadata"]["uid"]}
    about = {"apiVersion": target["apiVersion"], "kind": target["kind"], **named}
    return COMMANDS, obj(COMMANDS, "c", action="CloseQueue" if target["kind"] == "Queue" else "AbortJob", target=about)


def played(server: Server, scene: Callable[[dict[Kind, Informer]], Awaitable[None]]) -> list[tuple[str, str]]:
    """What was handed to jobs, once a scene of changes of the caches was played and everything is at rest."""

    async def run() -> list[tuple[str, str]]:
        api, handed = cast(Connection, server), list[tuple[str, str]]()
        caches = {kind: Informer(api, kind) for kind in (COMMANDS, JOBS, QUEUES, POD_GROUPS)}
        calls, retry = Calls(api, caches.__getitem__), Retry(first_s=60.0)
        context = ControllerContext(calls=calls, recorder=Quiet(), retry=retry)
        loops = [
            CommandController(context, lambda key, action: handed.append((key, action))),
            QueueController(context),
        ]
        for loop in loops:
            loop.start()
        working = [asyncio.ensure_future(loop.run()) for loop in loops]
        await scene(caches)
        await turns()
        for one in working:
            one.cancel()
        await asyncio.gather(*working, return_exceptions=True)
        return handed

    return asyncio.run(run())


async def turns() -> None:
    for _ in range(30):
        await asyncio.sleep(0)


def listed(caches: dict[Kind, Informer], *kinds: Kind) -> None:
    for kind in kinds or caches:
        caches[kind].synced.set()


def test_a_queue_that_no_cache_knows_yet_is_closed() -> None:
    queue = obj(QUEUES, "q")
    command = close(queue)
    server = Server((QUEUES, queue), command)

    async def scene(caches: dict[Kind, Informer]) -> None:
        listed(caches)
        caches[COMMANDS].observe(command[1])

    played(server, scene)
    assert server.states() == {QUEUES.path(name="q"): "Closed"}


def test_a_job_that_no_cache_knows_yet_is_aborted() -> None:
    job = obj(JOBS, "j")
    command = close(job)

    async def scene(caches: dict[Kind, Informer]) -> None:
        listed(caches)
        caches[COMMANDS].observe(command[1])

    assert played(Server((JOBS, job), command), scene) == [("default/j", "AbortJob")]


def test_what_is_named_is_never_part_of_a_path_unless_it_is_a_name() -> None:
    command = close(obj(QUEUES, "../../../../api/v1/nodes/n"))
    server = Server(command)

    async def scene(caches: dict[Kind, Informer]) -> None:
        listed(caches)
        caches[COMMANDS].observe(command[1])

    played(server, scene)
    assert (server.asked, server.objects) == ([], {})


def test_a_closing_queue_is_not_closed_by_groups_that_were_not_listed_yet() -> None:
    queue = obj(QUEUES, "q", status={"state": "Closing"})
    server = Server((QUEUES, queue))

    async def scene(caches: dict[Kind, Informer]) -> None:
        caches[QUEUES].observe(queue)
        listed(caches, QUEUES, COMMANDS)
        await turns()
        assert server.states() == {QUEUES.path(name="q"): "Closing"}
        caches[POD_GROUPS].observe(obj(POD_GROUPS, "g", spec={"queue": "q"}))
        listed(caches)
        await turns()
        assert server.states() == {QUEUES.path(name="q"): "Closing"}
        caches[POD_GROUPS].forget(obj(POD_GROUPS, "g", 2, spec={"queue": "q"}))

    played(server, scene)
    assert server.states() == {QUEUES.path(name="q"): "Closed"}
