"""Parts of NVIDIA's GPUs: found by what nvidia-smi and its driver list, given by name, with the files of their GPU."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from phalanx.embedded.node.machine.devices.gpus import MigInstance, MigInstances, find_instances, instance_files
from phalanx.embedded.node.machine.devices.pool import DeviceFile
from phalanx.embedded.node.machine.machine import Gpu
from phalanx.embedded.node.run import hardware
from phalanx.errors import PhalanxError
from tests.embedded.apiserver.process import ServerProcess
from tests.embedded.node.machine import Client, scenario
from tests.embedded.node.objects import container

LISTED = """\
GPU 0: NVIDIA A100-SXM4-40GB (UUID: GPU-5d5ba0d6-d33d-2b2c-524d-9e3d8d2b8a77)
GPU 1: NVIDIA A100-SXM4-40GB (UUID: GPU-d1f9a1c2-0000-2b2c-524d-9e3d8d2b8a77)
  MIG 3g.20gb     Device  0: (UUID: MIG-c6d4f1ef-42e4-5de3-91c7-45d71c87eb3f)
  MIG 1g.5gb+me   Device  1: (UUID: MIG-GPU-d1f9a1c2-0000-2b2c-524d-9e3d8d2b8a77/7/0)
"""
LARGE = MigInstance(uuid="MIG-c6d4f1ef-42e4-5de3-91c7-45d71c87eb3f", profile="3g.20gb", gpu="1")
SMALL = MigInstance(uuid="MIG-GPU-d1f9a1c2-0000-2b2c-524d-9e3d8d2b8a77/7/0", profile="1g.5gb+me", gpu="1")


def test_instances_are_listed_with_their_gpu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "listed").write_text(LISTED)
    (tmp_path / "nvidia-smi").write_text(f'#!/bin/sh\n[ "$1" = -L ] && cat {tmp_path}/listed\n')
    (tmp_path / "nvidia-smi").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    assert find_instances() == (LARGE, SMALL)
    assert [one.resource for one in (LARGE, SMALL)] == ["nvidia.com/mig-3g.20gb", "nvidia.com/mig-1g.5gb.me"]
    (tmp_path / "nvidia-smi").write_text("#!/bin/sh\nexit 9\n")
    assert find_instances() == ()


def test_the_files_of_a_gpus_instances_are_numbered_by_the_driver(tmp_path: Path) -> None:
    minors = tmp_path / "mig-minors"
    minors.write_text("config 1\nmonitor 2\ngpu1/gi0/access 3\ngpu11/gi0/access 9\ngpu1/gi0/ci0/access 4\n")
    caps = "/dev/nvidia-caps/nvidia-cap"
    assert instance_files("/dev/nvidia1", minors) == (f"{caps}3", f"{caps}4")
    assert instance_files("/dev/nvidia0", tmp_path / "none") == ()


def test_two_parts_of_a_gpu_bring_its_files_once() -> None:
    source = MigInstances([LARGE, SMALL], {"1": ("/dev/nvidia1", "/dev/nvidiactl")})
    granted = asyncio.run(source.allocate((LARGE.uuid, SMALL.uuid)))
    assert granted.env["CUDA_VISIBLE_DEVICES"] == f"{LARGE.uuid},{SMALL.uuid}"
    assert granted.files == tuple(DeviceFile(source=path, target=path) for path in ("/dev/nvidia1", "/dev/nvidiactl"))
    with pytest.raises(PhalanxError, match="no MIG instance gone any more"):
        asyncio.run(source.allocate(("gone",)))


@pytest.mark.slow
def test_a_gpu_that_is_cut_is_offered_in_parts_alone(
    api_server: ServerProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    gpus = (Gpu(index="0", uuid="GPU-0", product="A100"), Gpu(index="1", uuid="GPU-1", product="A100"))
    monkeypatch.setattr(hardware, "find_gpus", lambda: gpus)
    monkeypatch.setattr(hardware, "find_instances", lambda: (LARGE, SMALL))
    monkeypatch.setattr("phalanx.embedded.node.machine.devices.gpus._MINORS", Path("/nowhere"))

    async def test(api: Client) -> None:
        script = ("sh", "-c", "echo [$CUDA_VISIBLE_DEVICES]")
        asked = {"whole": "nvidia.com/gpu", "part": LARGE.resource, "none": ""}
        for name, resource in asked.items():
            limits = {"resources": {"limits": {resource: "1"}}} if resource else {}
            await api.run(container("main", *script, **limits), name=name)
            await api.phase("Succeeded", name)
        assert [await api.logs(name) for name in asked] == ["[0]", f"[{LARGE.uuid}]", "[]"]
        await api.run(container("main", *script, resources={"limits": {"nvidia.com/gpu": "2"}}), name="both")
        pod = await api.phase("Failed", "both")
        assert pod["status"]["reason"] == "OutOfnvidia.com/gpu"

    scenario(api_server, test)
