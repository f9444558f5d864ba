"""`node/run/hardware.py`: GPUs that are divided are offered in parts, and not as a whole."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from phalanx.embedded.node.machine.devices.gpus import AmdGpu, MigInstance
from phalanx.embedded.node.machine.machine import Gpu
from phalanx.embedded.node.machine.settings import NodeSettings
from phalanx.embedded.node.run import hardware
from phalanx.embedded.node.run.hardware import NodeHardware, control_groups, device_sources, offer_own_devices

GPUS = (Gpu(index="0", device_file="/dev/nvidia0"), Gpu(index="1", device_file="/dev/nvidia1"))
PART = MigInstance(uuid="MIG-1", profile="1g.10gb", gpu="1")
FOUND = NodeHardware(
    gpus=GPUS, instances=(PART,), amd_gpus=(AmdGpu(index=0, unique_id="", render_file="/dev/dri/r"),), rdma_cards=()
)


async def test_a_divided_gpu_is_offered_in_parts() -> None:
    offered: dict[str, Any] = {}

    async def offer(resource: str, ids: Any, source: object) -> None:
        offered[resource] = list(ids)

    pool: Any = SimpleNamespace(known_files=set(), offer=offer)
    await offer_own_devices(pool, FOUND)
    assert FOUND.whole_gpus == GPUS[:1]
    assert offered.keys() == {PART.resource, "amd.com/gpu"}
    assert {"/dev/nvidia1", "/dev/dri/r"} <= pool.known_files
    assert "/dev/nvidia0" not in pool.known_files


@pytest.mark.parametrize(
    ("settings", "allocatable", "asked"),
    [
        ({}, {}, ()),
        ({"static_cpus": True}, {}, ("cpuset",)),
        ({}, {"hugepages-2Mi": "4Mi"}, ("hugetlb",)),
        ({"rdma": {"hca_handle": 8}}, {}, ("rdma",)),
    ],
)
def test_only_the_controllers_in_use_are_needed(
    monkeypatch: pytest.MonkeyPatch, settings: dict[str, Any], allocatable: dict[str, str], asked: tuple[str, ...]
) -> None:
    found: list[Any] = []
    groups = SimpleNamespace(enforced=frozenset())
    monkeypatch.setattr(
        hardware.Cgroups, "of_this_process", lambda *words, besides: found.append((*words, besides)) or groups
    )
    monkeypatch.setattr(hardware, "require_rdma", lambda cards, *, enforced: found.append(enforced))
    control_groups("n1", {"cpu": "2", **allocatable}, NodeSettings(data_dir=Path("/d"), **settings), FOUND)
    assert found == [("phalanx-n1", 2000, asked), *([False] if "rdma" in asked else [])]


def test_listed_devices_are_watched() -> None:
    devices: Any = None
    assert list(device_sources(NodeSettings(data_dir=Path("/d")), devices)) == []
    [watch] = device_sources(NodeSettings(data_dir=Path("/d"), devices=Path("/list")), devices)
    watch.close()
