"""What containers use: read from control groups, served as metrics.k8s.io, shown by `kubectl top`."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from phalanx.embedded.node.agent.usage import Meter, read_group, read_machine
from phalanx.embedded.node.container.cgroup import Cgroups
from tests.embedded.apiserver.process import ServerProcess
from tests.embedded.node.machine import Client, scenario
from tests.embedded.node.objects import container, running
from tests.embedded.node.waiting import until
from tests.kubectl import KUBECTL


def files(folder: Path, **texts: str) -> Path:
    folder.mkdir(exist_ok=True)
    for name, text in texts.items():
        (folder / name.replace("_at_", ".")).write_text(text)
    return folder


def test_a_group_is_read_in_either_version(tmp_path: Path) -> None:
    counts = files(tmp_path / "a", cpuacct_at_usage="5000000\n")
    stat = "cache 9\ntotal_inactive_file 1024\n"
    memory = files(tmp_path / "b", memory_at_usage_in_bytes="4096\n", memory_at_stat=stat)
    one = read_group([str(counts), str(memory)])
    assert one is not None
    assert (one.cpu_ns, one.working_set_bytes) == (5_000_000, 3072)
    both = files(tmp_path / "c", cpu_at_stat="usage_usec 70\n", memory_at_current="4096\n", memory_at_stat="file 1\n")
    two = read_group([str(both)])
    assert two is not None
    assert (two.cpu_ns, two.working_set_bytes) == (70_000, 4096)
    assert read_group([str(counts)]) is None


def test_the_machine_is_read_from_proc(tmp_path: Path) -> None:
    files(tmp_path, stat="cpu  100 0 50 9000 7 1 2 3 0 0\ncpu0 1 2\n")
    files(tmp_path, meminfo="MemTotal: 1000 kB\nMemFree: 300 kB\nInactive(file): 200 kB\n")
    read = read_machine(tmp_path)
    assert (read.cpu_ns, read.working_set_bytes) == (156 * 10_000_000, 500 * 1024)


class Known:
    """A pod with one container, as the agent has it."""

    def __init__(self, group: Path, started_s: float) -> None:
        self.record = self
        self.name, self.namespace = "p", "default"
        self.known, self.number, self.groups = self, 0, (str(group),)
        self.state = running(started_s)
        self.containers = {"main": self}


def test_a_rate_is_the_mean_since_the_look_before_the_last(tmp_path: Path) -> None:
    start = read_machine().at_s - 100_000.0  # long compared with any pause of this process
    pods: dict[str, Any] = {"u": Known(tmp_path / "g", start)}
    meter = Meter(pods, "n")

    def use(cpu_s: int) -> None:
        files(tmp_path / "g", memory_at_current="1", memory_at_stat="", cpu_at_stat=f"usage_usec {cpu_s * 1_000_000}\n")

    def told() -> Any:
        [pod] = meter.summary()["pods"]
        return pod["containers"][0]

    use(50_000)
    assert told()["cpu"]["usageNanoCores"] == pytest.approx(0.5e9, rel=0.01)  # since its start
    meter.look()
    meter.look()
    assert told()["cpu"]["usageNanoCores"] == 0
    assert told()["windowSeconds"] < 100
    use(50_001)
    assert told()["cpu"]["usageNanoCores"] > 0


async def top(server: ServerProcess, api: Client, *words: str) -> str:
    command = [KUBECTL, f"--kubeconfig={server.kubeconfig}", f"--namespace={api.namespace}", *words]
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(*command, stdout=pipe, stderr=pipe)
    out, err = await asyncio.wait_for(process.communicate(), 240)
    return (out + err).decode()


@pytest.mark.slow
def test_kubectl_top_shows_pods_and_the_node(api_server: ServerProcess) -> None:
    if {"cpu", "memory"} - Cgroups.of_this_process("phalanx-usage").enforced:
        pytest.skip("no control groups of cpu and memory can be made here")

    async def test(api: Client) -> None:
        await api.run(container("busy", "sh", "-c", "while :; do :; done"), container("idle", "sleep", "300"))
        await api.phase("Running")

        async def shown() -> list[list[str]]:
            rows = [line.split() for line in (await top(api_server, api, "top", "pod", "--containers")).splitlines()]
            return rows if len(rows) == 3 and int(rows[1][2].removesuffix("m")) > 0 else []

        rows = await until(shown)
        assert [row[1] for row in rows] == ["NAME", "busy", "idle"]
        busy, idle = (int(row[2].removesuffix("m")) for row in rows[1:])
        assert busy > 10 * idle
        assert rows[1][3].endswith("Mi")
        assert api.node in await top(api_server, api, "top", "node", api.node)
        assert "p " in await top(api_server, api, "get", "pods.metrics.k8s.io")
        assert "not found" in await top(api_server, api, "top", "pod", "nobody")

    scenario(api_server, test)
