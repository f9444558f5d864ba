"""Run the machine as a node of a real API server, for the length of a test. Nothing of it is left running
afterwards."""

from __future__ import annotations

import asyncio
import itertools
import os
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from phalanx.client.connection import ApiRefusal, Connection, Object
from phalanx.client.informer import Informer
from phalanx.client.kind import EVENTS, LEASES, NAMESPACES, NODES, PODS, Kind
from phalanx.embedded.node.container.attempt import Attempt, RunningAttempt, attempts
from phalanx.embedded.node.container.cgroup import Cgroups, remove
from phalanx.embedded.node.machine.settings import NodeSettings, Patience
from phalanx.embedded.node.pod.record import records
from phalanx.embedded.node.run.machine_node import run_node
from tests.embedded.apiserver.process import ServerProcess
from tests.embedded.node.waiting import until

QUICK = Patience(
    lease_renew_s=0.2,
    heartbeat_s=0.2,
    backoff_first_s=0.2,
    backoff_most_s=0.4,
    config_retry_s=0.1,
    disk_look_s=0.2,
)
_NUMBER = itertools.count()
Part = Callable[[Connection, Callable[[Kind], Informer]], Coroutine[Any, Any, None]]


class Client:
    """One namespace of the API server, as a test uses it."""

    def __init__(self, connection: Connection, namespace: str, node: str) -> None:
        self.connection, self.namespace, self.node = connection, namespace, node

    async def run(self, *containers: Object, name: str = "p", **spec: Any) -> Object:
        """Create a pod that is bound to the node."""
        meta = {"name": name, **spec.pop("meta", {})}
        spec = {"nodeName": self.node, "restartPolicy": "Never", "containers": list(containers), **spec}
        body = {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec}
        return await self.connection.create(PODS, body, self.namespace)

    async def make(self, kind: Kind, name: str, **fields: Any) -> Object:
        body = {"apiVersion": kind.api_version, "kind": kind.name, "metadata": {"name": name}, **fields}
        return await self.connection.create(kind, body, self.namespace)

    async def delete(self, name: str = "p", **options: Any) -> None:
        await self.connection.delete(PODS, name, self.namespace, options or None)

    async def get(self, name: str = "p") -> Object | None:
        try:
            return await self.connection.get(PODS, name, self.namespace)
        except ApiRefusal as error:
            if error.code == 404:
                return None
            raise

    async def until(self, condition: Callable[[Any], object], name: str = "p") -> Any:
        """The pod as soon as `condition` holds of it."""
        found = None

        async def look() -> bool:
            nonlocal found
            found = await self.get(name)
            return bool(condition(found))

        try:
            await until(look)
        except TimeoutError:
            raise AssertionError(f"it never came true of {found}") from None
        return found

    async def phase(self, phase: str, name: str = "p") -> Any:
        return await self.until(lambda pod: pod is not None and pod["status"].get("phase") == phase, name)

    async def waits(self, reason: str, name: str = "p") -> str:
        """Until the first container waits for that reason; the message."""

        def state(pod: Any) -> Any:
            return (pod["status"].get("containerStatuses") or [{"state": {}}])[0]["state"].get("waiting") or {}

        pod = await self.until(lambda pod: state(pod).get("reason") == reason, name)
        return str(state(pod).get("message", ""))

    async def logs(self, name: str = "p", **params: str) -> str:
        async with self.lines(name, **params) as lines:
            return "\n".join([line async for line in lines])

    @asynccontextmanager
    async def lines(self, name: str = "p", **params: str) -> AsyncIterator[AsyncIterator[str]]:
        path = PODS.path(self.namespace, name, "log")
        async with self.connection.stream(path, params, 240) as lines:
            yield (line.decode() async for line in lines)

    async def events(self, reason: str, count: int = 1) -> list[str]:
        """Wait for `count` events with this reason, and return their messages."""

        async def look() -> list[str]:
            found = (await self.connection.list(EVENTS, self.namespace))["items"]
            messages = [one["message"] for one in found if one["reason"] == reason]
            return messages if len(messages) >= count else []

        return list(await until(look))


@asynccontextmanager
async def running(connection: Connection, *parts: Part) -> AsyncIterator[None]:
    """Parts that share informers, until the end of the context."""
    informers: dict[Kind, Informer] = {}
    tasks: list[asyncio.Task[None]] = []

    def informer(kind: Kind) -> Informer:
        if kind not in informers:
            informers[kind] = Informer(connection, kind)
            tasks.append(asyncio.create_task(informers[kind].run()))
        return informers[kind]

    work = [asyncio.create_task(part(connection, informer)) for part in parts]
    try:
        yield
        for task in work:
            if task.done():
                task.result()
    finally:
        for task in (*work, *tasks):
            task.cancel()
        await asyncio.gather(*work, *tasks, return_exceptions=True)


def node_part(settings: NodeSettings) -> Part:
    return lambda connection, informers: run_node(connection, informers, settings)


@asynccontextmanager
async def client(server: ServerProcess, node: str, namespace: str) -> AsyncIterator[Client]:
    async with await Connection.open(server.kubeconfig) as connection:
        await connection.create(NAMESPACES, {"metadata": {"name": namespace}})
        yield Client(connection, namespace, node)


async def registered(connection: Connection, name: str) -> Object:
    """Wait for the node and its Lease, and return the node."""

    async def look() -> Object | None:
        try:
            await connection.get(LEASES, name, "kube-node-lease")
            return await connection.get(NODES, name)
        except ApiRefusal:
            return None

    found: Object = await until(look)
    return found


def settings_of(server: ServerProcess, name: str, **more: Any) -> NodeSettings:
    resources = {"cpu": "6", "memory": "8Gi", **more.pop("resources", {})}
    return NodeSettings(data_dir=server.data, name=name, resources=resources, **{"patience": QUICK, **more})


def kill_all(pods_dir: Path, node: str) -> None:
    """Every process of the pods of this node, which are those in the namespace of its name; and its cgroups."""
    for record in records(pods_dir):
        if record.namespace == node:
            for folder in (path for path in (pods_dir / record.uid).iterdir() if path.is_dir()):
                for attempt in attempts(folder)[-1:]:
                    asyncio.run(_end(attempt))
    Cgroups.of_this_process(f"phalanx-{node}").close()


async def _end(attempt: Attempt) -> None:
    if isinstance(attempt.settle(), RunningAttempt):
        attempt.kill()
        await attempt.ended()
        remove(attempt.spec.cgroup_dirs)


def scenario(server: ServerProcess, test: Callable[[Client], Coroutine[Any, Any, None]], **settings: Any) -> None:
    """Run `test` against a node of its own."""
    name = f"node-{next(_NUMBER)}-{os.getpid()}"

    async def run() -> None:
        given = settings_of(server, name, **settings)
        async with client(server, name, name) as api, running(api.connection, node_part(given)):
            await registered(api.connection, name)
            await test(api)

    try:
        asyncio.run(run())
    finally:
        kill_all(server.data / "pods", name)
