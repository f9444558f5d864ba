"""A cluster to install into: the embedded API server, its controllers and simulated nodes, and the real kubectl. Nobody
schedules."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from phalanx.client.connection import Connection
from phalanx.embedded.controllers.run import run_controllers
from phalanx.embedded.controllers.runtime.calls import SharedInformers
from phalanx.embedded.node.machine.settings import SimulatedSettings
from phalanx.embedded.node.simulated.nodes import run_simulated_nodes
from tests.embedded.apiserver.process import ServerProcess
from tests.kubectl import KUBECTL

ROOT = Path(__file__).parents[2]
NODES = SimulatedSettings(nodes=2, cpu="4", memory="16Gi")


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    server: ServerProcess

    def kubectl(self, *words: str, text: str | None = None, kubeconfig: Path | None = None) -> str:
        done = self.call(*words, text=text, kubeconfig=kubeconfig)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def call(
        self, *words: str, text: str | None = None, kubeconfig: Path | None = None
    ) -> subprocess.CompletedProcess[str]:
        environment = {**os.environ, "KUBECONFIG": str(kubeconfig or self.server.kubeconfig)}
        return subprocess.run(
            (KUBECTL, *words), env=environment, input=text, cwd=ROOT, capture_output=True, text=True, timeout=120
        )

    def get(self, *words: str) -> Any:
        return json.loads(self.kubectl("get", *words, "--output", "json"))

    def apply(self, *objects: Any) -> None:
        self.kubectl("apply", "--filename", "-", text=yaml.safe_dump_all(objects))

    def account(self, namespace: str, name: str) -> Path:
        """A kubeconfig of that service account."""
        path = self.server.data / f"{namespace}-{name}"
        config = yaml.safe_load(self.server.kubeconfig.read_text())
        token = self.kubectl("create", "token", name, "--namespace", namespace).strip()
        config["users"][0]["user"] = {"token": token}
        path.write_text(yaml.safe_dump(config))
        return path


@contextmanager
def cluster(data: Path) -> Iterator[Cluster]:
    with ServerProcess.started(data) as server, _machinery(server.kubeconfig):
        yield Cluster(server=server)


@contextmanager
def _machinery(kubeconfig: Path) -> Iterator[None]:
    """Controllers and nodes, on a thread of their own."""
    loop, stop = asyncio.new_event_loop(), asyncio.Event()

    async def run() -> None:
        async with await Connection.open(kubeconfig) as connection, SharedInformers(connection) as informers:
            parts = [
                asyncio.ensure_future(run_controllers(connection, informers)),
                asyncio.ensure_future(run_simulated_nodes(connection, informers, NODES)),
            ]
            await stop.wait()
            for part in parts:
                part.cancel()
            await asyncio.gather(*parts, return_exceptions=True)

    thread = threading.Thread(target=lambda: loop.run_until_complete(run()))
    thread.start()
    try:
        yield
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join()
        loop.close()
