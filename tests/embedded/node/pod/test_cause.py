"""The cause of a killed task in the pod's status, with real processes and real signals."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from typing import Any

import pytest

from phalanx.client.kind import PODS
from phalanx.embedded.node.container.attempt import Attempt, RunningAttempt
from phalanx.embedded.node.container.cgroup import Cgroups
from phalanx.embedded.node.pod.cause import container_cause
from tests.embedded.apiserver.process import ServerProcess
from tests.embedded.node.machine import Client, client, kill_all, node_part, registered, running, scenario, settings_of
from tests.embedded.node.objects import container, exited
from tests.embedded.node.waiting import until

pytestmark = pytest.mark.slow

CAN_LIMIT_MEMORY = "memory" in Cgroups.of_this_process("probe").enforced


def ended(pod: Any) -> Any:
    return pod["status"]["containerStatuses"][0]["state"]["terminated"]


def test_memory_of_the_machine_is_told_from_that_of_a_limit() -> None:
    limited = container("main", resources={"limits": {"memory": "4Gi"}})
    end = exited(137, signal=9, reason="OOMKilled", peak_memory_bytes=1 << 30)
    assert container_cause(limited, end) == (
        "out of memory (OOM), killed by the kernel below its limit: its limit is 4096Mi, its peak was 1024Mi; "
        "the machine had no memory left, and the kernel first kills containers with small memory requests"
    )
    end = exited(137, signal=9, reason="OOMKilled", peak_memory_bytes=(4 << 30) - (2 << 20))
    assert container_cause(limited, end).endswith("killed by the kernel: its limit is 4096Mi, its peak was 4094Mi")


def test_an_exit_code_with_the_end_of_the_log(api_server: ServerProcess) -> None:
    async def test(api: Client) -> None:
        await api.run(container("main", "sh", "-c", "seq 100; echo no such file >&2; exit 3"))
        message = (await api.phase("Failed"))["status"]["message"]
        assert message.startswith("container main: exit code 3; its log ends:\n  97\n"), message
        assert message.endswith("\n  no such file")

    scenario(api_server, test)


def test_a_kill_by_a_user_of_the_machine(api_server: ServerProcess) -> None:
    async def test(api: Client) -> None:
        await api.run(container("main", "sh", "-c", "kill -9 $$$$"))
        pod = await api.phase("Failed")
        assert (ended(pod)["exitCode"], ended(pod)["signal"]) == (137, 9)
        assert "killed by SIGKILL (exit code 137), sent by a user of this machine or" in pod["status"]["message"]
        await api.run(container("main", "sh", "-c", "kill -SEGV $$$$"), name="bug")
        assert (await api.phase("Failed", "bug"))["status"]["message"].endswith("killed by SIGSEGV (exit code 139)")

    scenario(api_server, test)


@pytest.mark.skipif(not CAN_LIMIT_MEMORY, reason="memory cgroups cannot be written here")
def test_memory_with_its_limit_and_its_peak(api_server: ServerProcess) -> None:
    async def test(api: Client) -> None:
        hog = container("main", sys.executable, "-c", "x = b'x' * 2**27", resources={"limits": {"memory": "48Mi"}})
        await api.run(hog)
        pod = await api.phase("Failed")
        text = "out of memory (OOM), killed by the kernel: its limit is 48Mi, its peak was 48Mi"
        assert (ended(pod)["reason"], ended(pod)["message"]) == ("OOMKilled", text)
        assert text in pod["status"]["message"]
        script = f"{sys.executable} -c 'bytearray(2**27)' || exit 3"
        await api.run(container("main", "sh", "-c", script, resources={"limits": {"memory": "48Mi"}}), name="child")
        pod = await api.phase("Failed", "child")
        text = f"exit code 3, after one of its processes ran {text}"
        assert (ended(pod)["reason"], ended(pod)["exitCode"]) == ("OOMKilled", 3)
        assert text in pod["status"]["message"]

    scenario(api_server, test)


def test_a_liveness_probe(api_server: ServerProcess) -> None:
    async def test(api: Client) -> None:
        probe = {"exec": {"command": ["sh", "-c", "echo stuck; exit 1"]}, "periodSeconds": 1, "failureThreshold": 1}
        await api.run(container("main", "sleep", "1000", livenessProbe=probe), terminationGracePeriodSeconds=1)
        message = (await api.phase("Failed"))["status"]["message"]
        assert "killed by SIGTERM (exit code 143), told to stop: Liveness probe failed" in message, message
        assert "stuck" in message

    scenario(api_server, test)


def test_a_deletion_by_a_user(api_server: ServerProcess) -> None:
    async def test(api: Client) -> None:
        await api.run(container("main", "sleep", "1000"), meta={"finalizers": ["example.com/keep"]})
        await api.phase("Running")
        await api.delete()
        message = (await api.phase("Failed"))["status"]["message"]
        assert "killed by SIGTERM (exit code 143), told to stop: the pod was deleted by admin" in message, message
        await api.connection.patch(PODS, "p", {"metadata": {"finalizers": None}}, api.namespace)

    scenario(api_server, test)


def test_a_reboot(api_server: ServerProcess) -> None:
    """What a boot leaves behind: the files, another boot id, and none of the processes."""
    name = f"reboot-{os.getpid()}"

    async def run() -> None:
        given = settings_of(api_server, name)
        async with client(api_server, name, name) as api:
            async with running(api.connection, node_part(given)):
                await registered(api.connection, name)
                await api.run(container("main", "sleep", "1000"))
                pod = await api.phase("Running")
            attempt = Attempt(given.pods_dir / pod["metadata"]["uid"] / "main", 0)
            state = attempt.state()
            assert isinstance(state, RunningAttempt)
            os.kill(state.shim_pid, signal.SIGKILL)
            await until(lambda: asyncio.sleep(0, not os.path.exists(f"/proc/{state.shim_pid}")))
            record = attempt.path("run.json")
            record.write_text(json.dumps({**json.loads(record.read_text()), "boot_id": "an earlier boot"}))
            async with running(api.connection, node_part(given)):
                pod = await api.phase("Failed")
            assert ended(pod)["reason"] == "NodeReboot"
            assert "The machine was rebooted while this container ran" in pod["status"]["message"]
            conditions = {one["type"]: one for one in pod["status"]["conditions"]}
            assert conditions["DisruptionTarget"]["reason"] == "TerminationByKubelet"

    try:
        asyncio.run(run())
    finally:
        kill_all(api_server.data / "pods", name)
