"""The same protocol against the embedded API server and its Job controller: real processes, real watches, a sample of
the kills that `test_restart` does exhaustively on the double."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from phalanx import loop
from phalanx.client.connection import Connection
from phalanx.client.kind import JOBS, NODES, PODS
from phalanx.embedded.controllers.informers import SharedInformers
from phalanx.embedded.controllers.run import run_controllers
from phalanx.kube.world import open_world
from phalanx.model.cluster import Cluster
from phalanx.model.policy import Policy
from tests.embedded.apiserver.process import ServerProcess
from tests.kube.double import Killed, job, node

pytestmark = pytest.mark.slow
GANG = {"job": "train", "job_roles": "2"}


class Mortal:
    """A connection whose process is killed right after its write number `last` was answered."""

    def __init__(self, connection: Connection, last: int) -> None:
        self._connection, self._last, self.killed = connection, last, asyncio.Event()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._connection, name)

    async def patch(self, *args: Any, **named: Any) -> Any:
        return await self._write(self._connection.patch(*args, **named))

    async def create(self, kind: Any, body: Any, *args: Any, **named: Any) -> Any:
        call = self._connection.create(kind, body, *args, **named)
        return await (self._write(call) if kind is PODS else call)

    async def _write(self, call: Any) -> Any:
        if self.killed.is_set():
            call.close()
            raise Killed
        answer = await call
        self._last -= 1
        if self._last == 0:
            self.killed.set()
            raise Killed
        return answer


async def scheduler(kubeconfig: Path, last: int, until: Callable[[SharedInformers], bool]) -> None:
    """One life of the process: until killed, or until what is expected can be seen."""
    async with await Connection.open(kubeconfig) as connection, SharedInformers(connection) as informers:
        mortal = Mortal(connection, last)
        seen = asyncio.Event()
        informers(PODS).subscribe(lambda change: seen.set() if until(informers) else None)
        try:
            async with open_world(mortal, informers) as world:  # type: ignore[arg-type]  # it answers as one does
                parts = [
                    asyncio.ensure_future(loop.run(world, Cluster(), Policy(), time.time)),
                    asyncio.ensure_future(run_controllers(connection, informers)),
                ]
                try:
                    async with asyncio.timeout(30):
                        await seen.wait()
                finally:
                    for part in parts:
                        part.cancel()
                    await asyncio.gather(*parts, return_exceptions=True)
        except* Killed:
            pass


def all_bound(informers: SharedInformers) -> bool:
    pods = informers(PODS).objects.values()
    return len(pods) == 4 and all(pod["spec"].get("nodeName") for pod in pods)


@pytest.mark.parametrize("last", [1, 2, 4])
def test_killed_and_started_again(tmp_path: Path, last: int) -> None:
    async def scene(kubeconfig: Path) -> None:
        async with await Connection.open(kubeconfig) as user:
            await user.create(NODES, {"apiVersion": "v1", "kind": "Node", **node("n1", 8)})
            status = {**(await user.get(NODES, "n1")), "status": node("n1", 8)["status"]}
            await user.replace(NODES, status, "status")
            await user.patch(NODES, "n1", {"spec": {"taints": None}})
            for body in (job("ps", 1, **GANG), job("w", 3, **GANG)):
                template = body["spec"]["template"]["spec"]
                template |= {"restartPolicy": "Never", "containers": [{**template["containers"][0], "image": "x"}]}
                await user.create(JOBS, {"apiVersion": "batch/v1", "kind": "Job", **body}, "default")
            await scheduler(kubeconfig, last, all_bound)
            await scheduler(kubeconfig, 0, all_bound)
            pods = (await user.list(PODS))["items"]
            assert sorted(pod["spec"].get("nodeName") for pod in pods) == ["n1"] * 4
            for name in ("ps", "w"):
                assert (await user.get(JOBS, name, "default"))["spec"]["suspend"] is False

    with ServerProcess.started(tmp_path) as server:
        asyncio.run(scene(server.kubeconfig))
