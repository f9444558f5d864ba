"""`phalanx top`: the keys of a terminal, and one picture of a server."""

from __future__ import annotations

import asyncio
import json
import os
import pty
import signal
import subprocess
import termios
from collections.abc import Iterator

import pytest

from phalanx.client.connection import Connection
from phalanx.client.kind import JOBS, NAMESPACES, NODES
from phalanx.kube.install.definitions import install
from tests.cli.test_job_reading import batch_job
from tests.cli.upstart import PHALANX, phalanx
from tests.embedded.apiserver.process import ServerProcess

pytestmark = pytest.mark.slow


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
