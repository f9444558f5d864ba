"""A namespace on the real embedded API server, with the controllers running in the test's own event loop."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, TypeAlias

from phalanx.client.connection import STRATEGIC_PATCH, ApiRefusal, Connection, Object
from phalanx.client.kind import JOBS, NAMESPACES, PODS, Kind
from phalanx.embedded.controllers.groups.settings import Settings
from phalanx.embedded.controllers.job.controller import JobSettings
from phalanx.embedded.controllers.job.decide import Pace
from phalanx.embedded.controllers.run import run_controllers
from phalanx.embedded.controllers.runtime.calls import SharedInformers
from phalanx.embedded.controllers.runtime.reconciler import Retry
from tests.embedded.apiserver.process import ServerProcess

FAST = Settings(
    events_window_s=0.2,
    namespace_again_s=0.05,
    node_grace_s=1.0,
    node_period_s=0.05,
    job=JobSettings(
        batch_s=0.02, settle_s=0.02, pace=Pace(first_s=0.05, most_s=0.2), retry=Retry(first_s=0.05, most_s=0.2)
    ),
)
_numbers = itertools.count()
Objects: TypeAlias = list[Object]


class Logged(Connection):
    """Record each request as `METHOD path`."""

    asked: list[str]

    async def request(self, method: str, path: str, **how: Any) -> Any:
        self.__dict__.setdefault("asked", []).append(f"{method} {path}")
        return await super().request(method, path, **how)


class Cluster:
    """The calls that a test makes to the API. `until` waits for a condition, never for a time."""

    def __init__(self, connection: Connection, namespace: str) -> None:
        self.connection, self.namespace = connection, namespace

    async def make(self, kind: Kind, name: str, **fields: Any) -> Object:
        meta = {"name": name, **fields.pop("metadata", {})}
        body = {"apiVersion": kind.api_version, "kind": kind.name, "metadata": meta, **fields}
        return await self.connection.create(kind, body, self.namespace if kind.namespaced else "")

    async def job(self, name: str = "j", **spec: Any) -> Object:
        template = {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}}
        return await self.make(JOBS, name, spec={"template": template, **spec})

    async def get(self, kind: Kind, name: str) -> Object | None:
        try:
            return await self.connection.get(kind, name, self.namespace if kind.namespaced else "")
        except ApiRefusal as refusal:
            if refusal.code == 404:
                return None
            raise

    async def list(self, kind: Kind) -> list[Object]:
        items: list[Object] = (await self.connection.list(kind, self.namespace))["items"]
        return sorted(items, key=lambda one: one["metadata"]["name"])

    async def set(self, kind: Kind, name: str, **patch: Any) -> Object:
        return await self.connection.patch(kind, name, patch, self.namespace if kind.namespaced else "")

    async def end(self, pod: Object, phase: str = "Succeeded", exit_code: int | None = None) -> None:
        """Write the status that a kubelet writes when the container has ended."""
        code = exit_code if exit_code is not None else int(phase == "Failed")
        container = {"name": "c", "image": "i", "imageID": "", "ready": False, "restartCount": 0}
        ended = [{**container, "state": {"terminated": {"exitCode": code}}}]
        body = {"status": {"phase": phase, "containerStatuses": ended}}
        await self.connection.patch(PODS, pod["metadata"]["name"], body, self.namespace, "status", STRATEGIC_PATCH)

    def asked(self, verb: str, part: str) -> int:
        """Return the number of requests with this method and this text in the path. It counts the requests in this
        namespace by the test and its controllers."""
        start = f"{verb} /"
        assert isinstance(self.connection, Logged)
        inside = [one for one in self.connection.asked if f"/namespaces/{self.namespace}/" in one]
        return sum(one.startswith(start) and part in one for one in inside)

    async def until(
        self, read: Callable[[], Awaitable[Any]], holds: Callable[[Any], Any], timeout_s: float = 240
    ) -> Any:
        """Read until the value meets the condition. Return the value."""
        value = None
        try:
            async with asyncio.timeout(timeout_s):
                while not holds(value := await read()):  # noqa: ASYNC110 -- what is waited for is in another process
                    await asyncio.sleep(0.01)
        except TimeoutError:
            raise AssertionError(f"not within {timeout_s} s; last seen: {value}") from None
        return value

    async def pods(self, count: int) -> Objects:
        """Wait for `count` pods, and return them."""
        found: Objects = await self.until(lambda: self.list(PODS), lambda pods: len(pods) == count)
        return found

    async def status(self, name: str, **fields: Any) -> dict[str, Any]:
        """Return the Job's status when it has these fields (None: absent)."""

        def has(job: Object | None) -> bool:
            status = (job or {}).get("status", {})
            return all(status.get(field) == value for field, value in fields.items())

        status: dict[str, Any] = (await self.until(lambda: self.get(JOBS, name), has))["status"]
        return status

    async def ended(self, name: str = "j") -> dict[str, Any]:
        """Return the Job's status when it is Complete or Failed. `last` adds the reason."""

        def over(job: Object | None) -> bool:
            types = {one["type"] for one in (job or {}).get("status", {}).get("conditions", ())}
            return bool(types & {"Complete", "Failed"})

        status: dict[str, Any] = (await self.until(lambda: self.get(JOBS, name), over))["status"]
        last = next(one for one in status["conditions"] if one["type"] in {"Complete", "Failed"})
        return {**status, "last": f"{last['type']} {last['reason']}"}

    async def gone(self, kind: Kind, name: str) -> None:
        await self.until(lambda: self.get(kind, name), lambda found: found is None)


@asynccontextmanager
async def controllers(connection: Connection, settings: Settings = FAST) -> AsyncIterator[None]:
    """Run the controllers."""
    async with SharedInformers(connection) as informers:
        task = asyncio.ensure_future(run_controllers(connection, informers, settings))
        try:
            yield
        finally:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task


@asynccontextmanager
async def cluster(server: ServerProcess, settings: Settings | None = FAST) -> AsyncIterator[Cluster]:
    """Create a new namespace. Without `settings` no controllers run."""
    namespace = f"c{os.getpid()}-{next(_numbers)}"
    async with await Logged.open(server.kubeconfig) as connection:
        await connection.create(NAMESPACES, {"metadata": {"name": namespace}})
        if settings is None:
            yield Cluster(connection, namespace)
            return
        async with controllers(connection, settings):
            yield Cluster(connection, namespace)


def scenario(
    server: ServerProcess, play: Callable[[Cluster], Awaitable[None]], settings: Settings | None = FAST
) -> None:
    """Run one scenario to its end."""

    async def run() -> None:
        async with cluster(server, settings) as here:
            await play(here)

    asyncio.run(run())
