"""`node/run/assembly.py`: what the settings and the machine's devices make of the surroundings of pods."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from phalanx.client.informer import Informer
from phalanx.embedded.node.container.isolation import Isolation
from phalanx.embedded.node.machine.devices.gpus import MigInstance
from phalanx.embedded.node.machine.settings import NodeSettings
from phalanx.embedded.node.machine.surroundings import Surroundings
from phalanx.embedded.node.run import assembly
from phalanx.embedded.node.run.hardware import NodeHardware

PART = MigInstance(uuid="MIG-1", profile="1g.10gb", gpu="0")


@pytest.fixture
def made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return a function: parts of GPUs and settings -> the surroundings."""

    async def found(*_: Any) -> Any:
        return Isolation()

    async def no_fence(*_: Any) -> None:
        return None

    monkeypatch.setattr(assembly, "isolation_of", found)
    monkeypatch.setattr(assembly, "network_fence", no_fence)
    monkeypatch.setattr(assembly, "control_groups", lambda *_: SimpleNamespace())

    async def of(*instances: MigInstance, **settings: Any) -> Surroundings:
        hardware = NodeHardware(gpus=(), instances=instances, amd_gpus=(), rdma_cards=())
        monkeypatch.setattr(assembly, "find_hardware", lambda: hardware)
        connection: Any = SimpleNamespace(server="https://c")
        home: Any = SimpleNamespace()
        return await assembly.assemble(
            connection,
            lambda kind: Informer(connection, kind),
            NodeSettings(data_dir=tmp_path, **settings),
            home,
            lambda: no_fence(),
        )

    return of


async def test_only_a_shared_machine_has_owners_of_pods(made: Any) -> None:
    assert (await made()).owners is None
    assert (await made(shared=True)).owners is not None


async def test_a_machine_with_parts_of_gpus_has_gpus(made: Any) -> None:
    assert not (await made()).has_gpus
    assert (await made(PART)).has_gpus
    assert (await made(resources={"nvidia.com/gpu": "2"})).has_gpus


async def test_a_node_has_the_name_in_its_settings(made: Any) -> None:
    assert (await made(name="n7")).name == "n7"
