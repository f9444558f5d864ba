"""`phalanx top`: the rows from fixed objects, the keys without and with a terminal, and one picture of a server."""

from __future__ import annotations

import asyncio
import json
import os
import pty
import signal
import subprocess
import termios
from collections.abc import Iterator
from typing import Any

import pytest

from phalanx.cli.commands.status.top import see, use_of
from phalanx.cli.views import top_view
from phalanx.client.connection import ApiRefusal, Connection
from phalanx.client.kind import JOBS, NAMESPACES, NODES, Kind
from phalanx.kube.install.definitions import QUEUES, install
from tests import clockwork
from tests.cli.test_job_reading import batch_job
from tests.cli.test_live_state import Shared
from tests.cli.upstart import PHALANX, phalanx
from tests.embedded.apiserver.process import ServerProcess
from tests.kube import double
from tests.kube.double import Api, Object

pytestmark = pytest.mark.slow


def test_the_use_of_a_pod_is_the_sum_of_its_containers() -> None:
    each = {"usage": {"cpu": "250m", "memory": "1Gi"}}
    assert use_of({"metadata": {}, "containers": [each, each]}) == (500, 2 << 30)
    assert use_of({"metadata": {}, "usage": {"cpu": "2", "memory": "1Gi"}}) == (2000, 1 << 30)


class Narrow(Shared):
    """The server of a user who may list one namespace, without metrics."""

    async def list(self, kind: Kind, namespace: str = "", **fields: str) -> Object:
        if kind not in self.api.objects:
            raise ApiRefusal(404, "NotFound", kind.plural)
        return await super().list(kind, namespace, **fields)


def test_a_user_who_may_list_one_namespace_sees_its_jobs_and_the_nodes() -> None:
    async def scene() -> None:
        api = Api()
        api.put(QUEUES, {"metadata": {"name": "default"}, "spec": {}})
        api.put(NODES, double.node("n1", 16))
        api.put(JOBS, double.job("his", 2))
        narrow: Any = Narrow(api)
        found, _ = await see(narrow, "ada", "default", everybody=True)
        assert found.partial
        assert [view.id for view in found.jobs] == ["default/his"]
        assert top_view.node_row(found.nodes[0], found)[4:6] == ["?/16", "-"]
        assert found.totals["running"] is None

    clockwork.run(scene())


@pytest.fixture(scope="module")
def server(api_server: ServerProcess) -> Iterator[ServerProcess]:
    """The shared server with a node, which is gone afterwards, and a Job."""

    async def fill() -> None:
        async with await Connection.open(api_server.kubeconfig) as connection:
            await connection.create(NAMESPACES, {"metadata": {"name": "topped"}})
            await install(connection)
            await connection.create(NODES, {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "topped-1"}})
            job = batch_job("train", 1, "1", namespace="topped")
            job["metadata"] = {"name": "train", "labels": {"phalanx.dev/queue": "default"}}
            await connection.create(JOBS, {"apiVersion": "batch/v1", **job}, "topped")

    async def remove() -> None:
        async with await Connection.open(api_server.kubeconfig) as connection:
            await connection.delete(NODES, "topped-1")
            await connection.delete(JOBS, "train", "topped")

    asyncio.run(fill())
    yield api_server
    asyncio.run(remove())


def test_one_picture_is_printed_where_nobody_types(server: ServerProcess) -> None:
    here = {"KUBECONFIG": str(server.kubeconfig)}
    done = phalanx("top", "--once", "--all", "-n", "topped", **here)
    assert done.returncode == 0, done.stderr
    assert "NODE " in done.stdout
    assert "topped/train" in done.stdout
    assert "topped/train" in phalanx("top", "--all", "-n", "topped", **here).stdout  # standard output is no terminal
    found = json.loads(phalanx("top", "--json", "--all", "-n", "topped", **here).stdout)
    assert [(job["job"], job["measured"]) for job in found["jobs"]] == [("topped/train", None)]
    assert found["totals"]["nodes"] == len(found["nodes"])
    assert "topped-1" in [one["node"] for one in found["nodes"]]
    assert phalanx("top", "--every", "1ms", **here).returncode == 1


@pytest.mark.parametrize("is_interrupted", [False, True])
def test_keys_of_a_real_terminal(server: ServerProcess, *, is_interrupted: bool) -> None:
    outer, inner = pty.openpty()
    before = termios.tcgetattr(inner)
    environment = {**os.environ, "KUBECONFIG": str(server.kubeconfig), "TERM": "xterm", "COLUMNS": "150", "LINES": "40"}
    words = (*PHALANX, "top", "--all", "-n", "topped", "--every", "1h")
    with subprocess.Popen(words, env=environment, stdin=inner, stdout=inner, stderr=inner) as process:
        text = ""

        def read_until(wanted: str) -> None:
            nonlocal text
            while wanted not in text:
                text += os.read(outer, 65536).decode(errors="replace")

        read_until("q quit")
        os.write(outer, b"e")
        read_until("topped/train: queued for")
        text = ""
        os.write(outer, b"x")
        read_until("e explain")
        if is_interrupted:
            process.send_signal(signal.SIGINT)
        else:
            os.write(outer, b"q")
        assert process.wait(timeout=120) == 0
    assert termios.tcgetattr(inner) == before
    os.close(inner)
    os.close(outer)
