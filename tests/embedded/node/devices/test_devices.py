"""Named devices: a test plugin over real gRPC, a file that lists devices, and the rights to open device files."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from phalanx.client.kind import NODES
from phalanx.embedded.node.container.cgroup import Cgroups
from tests.embedded.apiserver.process import ServerProcess
from tests.embedded.node.machine import QUICK, Client, scenario
from tests.embedded.node.objects import container
from tests.embedded.node.waiting import until

RESOURCE = "acme.example.org/board"


async def capacity(api: Client, resource: str = RESOURCE) -> str:
    node = await api.connection.get(NODES, api.node)
    return str(node["status"]["allocatable"].get(resource, ""))


async def offers(api: Client, count: str, resource: str = RESOURCE) -> None:
    async def look() -> bool:
        return await capacity(api, resource) == count

    await until(look)


def asking(count: int, *script: str, resource: str = RESOURCE, **more: Any) -> dict[str, Any]:
    return container("main", *script, resources={"limits": {resource: str(count)}}, **more)


def listing(path: Path, *ids: str, file: str = "/dev/full") -> Path:
    rows = "".join(f"  - {{id: {one}, devices: [{file}], env: {{WHICH: {one}}}}}\n" for one in ids)
    path.write_text(f"resources:\n  {RESOURCE}:\n{rows or '  []'}\n")
    return path


@pytest.mark.slow
def test_devices_that_a_file_lists_come_and_go_with_it(api_server: ServerProcess, tmp_path: Path) -> None:
    async def test(api: Client) -> None:
        await offers(api, "1")
        await api.run(asking(1, "sh", "-c", "echo $WHICH"))
        await api.phase("Succeeded")
        assert await api.logs() == "left"
        (tmp_path / "devices.yaml").write_text("no: {sense")
        listing(tmp_path / "devices.yaml", "gone", file="/dev/phalanx-no-such-file")
        await offers(api, "0")

    listing(tmp_path / "devices.yaml", "left")
    patience = replace(QUICK, device_look_s=0.1)
    scenario(api_server, test, devices=tmp_path / "devices.yaml", patience=patience)


@pytest.mark.slow
def test_who_has_not_been_given_a_device_cannot_open_it(api_server: ServerProcess, tmp_path: Path) -> None:
    if refusal := Cgroups.of_this_process("phalanx-test").devices_refusal:
        pytest.skip(f"device files cannot be withheld here: {refusal}")

    async def test(api: Client) -> None:
        await offers(api, "1")
        read = ("sh", "-c", "head -c 1 /dev/full >/tmp/none && echo may || true")
        await api.run(asking(1, *read), name="has")
        await api.run(container("main", *read), name="not")
        assert [await _log(api, name) for name in ("has", "not")] == [
            "may",
            "head: cannot open '/dev/full' for reading: Operation not permitted",
        ]

    scenario(api_server, test, devices=listing(tmp_path / "devices.yaml", "left"))


async def _log(api: Client, name: str) -> str:
    await api.phase("Succeeded", name)
    return await api.logs(name)
