"""kill -9 of the node agent: its pods go on, and the next agent finds them."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from phalanx.embedded.node.container.cgroup import Cgroups
from phalanx.embedded.node.container.durable import sole_owner
from phalanx.embedded.node.pod.record import records
from phalanx.errors import PhalanxError
from tests.embedded.apiserver.process import ServerProcess
from tests.embedded.node.machine import client, kill_all, registered
from tests.embedded.node.objects import container
from tests.embedded.node.waiting import until


@contextmanager
def agent(server: ServerProcess, name: str) -> Iterator[subprocess.Popen[bytes]]:
    command = [sys.executable, "-m", "phalanx.embedded.node", "--kubeconfig", str(server.kubeconfig)]
    process = subprocess.Popen([*command, "--data", str(server.data), "--name", name], stderr=subprocess.DEVNULL)
    try:
        yield process
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()
        Cgroups.of_this_process(f"phalanx-{name}").close()


@pytest.mark.slow
def test_a_killed_agent_finds_its_processes_again(api_server: ServerProcess, tmp_path: Path) -> None:
    name, flag = f"restart-{os.getpid()}", tmp_path / "go"
    text = f"echo begun >> {tmp_path}/starts; until [ -e {flag} ]; do sleep 0.01; done; echo done; exit 4"

    async def run() -> None:
        async with client(api_server, name, name) as api:
            with agent(api_server, name):
                await registered(api.connection, name)
                await api.run(container("main", "sh", "-c", text))
                await api.run(container("main", "sleep", "1000"), name="gone")
                before = await api.phase("Running")
                await api.phase("Running", "gone")
            flag.touch()  # it ends while nobody looks
            await api.delete("gone", gracePeriodSeconds=0)
            await api.until(lambda pod: pod is None, "gone")
            with agent(api_server, name):
                pod = await api.phase("Failed")
                one = pod["status"]["containerStatuses"][0]
                assert one["state"]["terminated"]["exitCode"] == 4
                assert one["restartCount"] == 0
                assert pod["status"]["startTime"] == before["status"]["startTime"]
                assert await api.logs() == "done"
                assert (tmp_path / "starts").read_text() == "begun\n"
                await _only_this_pod_is_left(api_server.data / "pods", name, pod["metadata"]["uid"])

    try:
        asyncio.run(run())
    finally:
        kill_all(api_server.data / "pods", name)


async def _only_this_pod_is_left(pods_dir: Path, namespace: str, uid: str) -> None:
    """Processes and files of a pod that was deleted in the meantime are ended and removed."""
    await until(lambda: [one.uid for one in records(pods_dir) if one.namespace == namespace] == [uid])


def test_two_agents_on_one_directory_are_one_too_many(tmp_path: Path) -> None:
    place, problem = tmp_path / "pods", "belongs to a node agent that is running"
    with sole_owner(place), pytest.raises(PhalanxError, match=problem), sole_owner(place):
        pass
    with sole_owner(place):
        pass


@pytest.mark.long
def test_however_often_the_agent_is_killed_each_pod_runs_once(api_server: ServerProcess, tmp_path: Path) -> None:
    name, starts, moments = f"kills-{os.getpid()}", tmp_path / "starts", random.Random(7)
    text = f'echo "$HOSTNAME" >> {starts}; sleep 0.3'
    names = [f"p{number}" for number in range(12)]

    async def run() -> None:
        async with client(api_server, name, name) as api:
            for each in names:
                await api.run(container("main", "sh", "-c", text), name=each)
            for _ in range(6):
                with agent(api_server, name):
                    await asyncio.sleep(moments.uniform(1.0, 2.5))  # the kill comes at any moment, not at a chosen one
            with agent(api_server, name):
                for each in names:
                    await api.phase("Succeeded", each)
            assert sorted(starts.read_text().split()) == sorted(names)

    asyncio.run(run())
