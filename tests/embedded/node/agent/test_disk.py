"""Pods that fill the disk are evicted, and no others: real files, measured."""

from __future__ import annotations

import re
import sys
from typing import Any

import pytest

from phalanx.client.kind import NODES
from phalanx.embedded.node.agent.disk import EvictionCandidate, Scratch, first_to_go
from tests.embedded.apiserver.process import ServerProcess
from tests.embedded.node.machine import Client, scenario
from tests.embedded.node.objects import container, pod

pytestmark = pytest.mark.slow

FILL = "dd if=/dev/zero of=$$DIR/x bs=1M count=8 2>/dev/null; sleep 1000"


def filler(directory: str, **resources: Any) -> Any:
    mount = [{"name": "scratch", "mountPath": "/mnt"}]
    text = FILL.replace("$$DIR", directory)
    return container("main", "sh", "-c", text, volumeMounts=mount, **resources)


def test_who_has_written_more_than_its_limit_is_evicted_and_its_neighbour_is_not(api_server: ServerProcess) -> None:
    async def test(api: Client) -> None:
        limit = {"resources": {"limits": {"ephemeral-storage": "4Mi"}}}
        modest = {"resources": {"limits": {"ephemeral-storage": "64Mi"}}}
        volumes = [{"name": "scratch", "emptyDir": {}}]
        await api.run(filler("/mnt", **modest), name="modest", volumes=volumes)
        await api.phase("Running", "modest")
        await api.run(filler("/mnt", **limit), name="greedy", volumes=volumes)
        status = (await api.phase("Failed", "greedy"))["status"]
        assert status["reason"] == "Evicted"
        said = r"Pod ephemeral local storage usage exceeds the total limit of containers 4\.0Mi\. It had [4-8][.\d]*Mi"
        assert re.match(said, status["message"])  # the node may have looked before all was written
        assert (await api.get("modest") or {})["status"]["phase"] == "Running"
        assert "exceeds the total limit" in (await api.events("Evicted"))[0]

    scenario(api_server, test)


def test_a_volume_has_a_limit_of_its_own(api_server: ServerProcess) -> None:
    async def test(api: Client) -> None:
        volumes = [{"name": "scratch", "emptyDir": {"sizeLimit": "2Mi"}}]
        await api.run(filler("/mnt"), volumes=volumes)
        status = (await api.phase("Failed"))["status"]
        said = r'Usage of EmptyDir volume "scratch" exceeds the limit "2Mi"\. It had [2-8][.\d]*Mi'
        assert re.match(said, status["message"])

    scenario(api_server, test)


def test_when_the_disk_is_low_the_node_says_so_and_who_has_written_most_goes(api_server: ServerProcess) -> None:
    async def test(api: Client) -> None:
        await api.run(container("main", "sleep", "1000"), name="idle")
        await api.run(filler("/mnt"), name="greedy", volumes=[{"name": "scratch", "emptyDir": {}}])
        status = (await api.phase("Failed", "greedy"))["status"]
        assert status["message"].startswith("The node was low on resource: ephemeral-storage. ")
        conditions = {one["type"]: one for one in status["conditions"]}
        assert conditions["DisruptionTarget"]["reason"] == "TerminationByKubelet"
        node = await api.connection.get(NODES, api.node)
        assert {one["type"]: one["status"] for one in node["status"]["conditions"]}["DiskPressure"] == "True"
        assert (await api.get("idle") or {})["status"]["phase"] == "Running"

    scenario(api_server, test, disk_reserve_bytes=1 << 60)


@pytest.mark.parametrize(
    ("written", "first"),
    [
        ({"a": (50, 100, 0), "b": (10, 0, 5)}, "b"),  # within what it asked for
        ({"a": (50, 0, 5), "b": (10, 0, 0)}, "b"),  # less priority
        ({"a": (50, 10, 0), "b": (45, 0, 0)}, "b"),  # the larger excess
        ({"a": (0, 0, 0)}, None),
    ],
)
def test_who_goes_first(written: dict[str, tuple[int, int, int]], first: str | None) -> None:
    """MiB written, MiB asked for, priority."""
    candidates = [
        EvictionCandidate(
            pod=pod(
                container(resources={"requests": {"ephemeral-storage": f"{asked}Mi"}}), name=name, priority=priority
            ),
            scratch=Scratch(total=size << 20),
        )
        for name, (size, asked, priority) in written.items()
    ]
    found = first_to_go(candidates)
    assert (found and found.pod["metadata"]["name"]) == first


def test_a_long_log_is_kept_in_files_of_which_the_oldest_go(api_server: ServerProcess) -> None:
    """64 MiB in lines of 1 MiB, as a program that writes without end: five files of little more than 10 MiB stay."""

    async def test(api: Client) -> None:
        text = "import sys\nfor number in range(64): sys.stdout.write('x' * 2**20 + f'{number}\\n')"
        await api.run(container("main", sys.executable, "-c", text))
        found = await api.phase("Succeeded")
        folder = api_server.data / "pods" / found["metadata"]["uid"] / "main"
        sizes = [path.stat().st_size for path in sorted(folder.glob("0.log*"))]
        assert len(sizes) == 5
        assert max(sizes) < 14 << 20
        assert (await api.logs(tailLines="1"))[-2:] == "63"
        lines = [line.lstrip("x") for line in (await api.logs()).split("\n")]
        assert lines[-40:] == [str(number) for number in range(24, 64)]

    scenario(api_server, test)
