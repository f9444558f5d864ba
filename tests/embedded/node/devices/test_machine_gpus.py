"""NVIDIA GPUs: found by nvidia-smi and the driver's files, and opened only by pods that have them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from phalanx.embedded.node.container.cgroup import Cgroups
from phalanx.embedded.node.machine import machine
from phalanx.embedded.node.machine.machine import Gpu, find_gpus
from phalanx.embedded.node.run import hardware
from tests.embedded.apiserver.process import ServerProcess
from tests.embedded.node.machine import Client, scenario
from tests.embedded.node.objects import container

GPU = "nvidia.com/gpu"


def test_a_gpu_has_the_file_that_its_driver_numbers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The number is the driver's, not the index: slots may be counted in another order."""
    (tmp_path / "nvidia-smi").write_text(
        "#!/bin/sh\necho 0, GPU-a, NVIDIA H200, 143771, 00000000:18:00.0\n"
        "echo 1, GPU-b, NVIDIA H200, [N/A], 00000000:2A:00.0\n"
    )
    (tmp_path / "nvidia-smi").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    told = {"/proc/driver/nvidia/gpus/0000:18:00.0/information": "Model: \t H200\nDevice Minor: \t 3\n"}
    monkeypatch.setattr(machine, "_text", lambda path: told.get(path, ""))
    assert find_gpus() == (
        Gpu(index="0", uuid="GPU-a", product="NVIDIA H200", memory_mib=143771, device_file="/dev/nvidia3"),
        Gpu(index="1", uuid="GPU-b", product="NVIDIA H200"),
    )


@pytest.mark.slow
def test_only_who_was_given_a_gpu_opens_its_file(api_server: ServerProcess, monkeypatch: pytest.MonkeyPatch) -> None:
    if refusal := Cgroups.of_this_process("phalanx-test").devices_refusal:
        pytest.skip(f"device files cannot be withheld here: {refusal}")
    gpus = tuple(
        Gpu(index=str(i), uuid=f"GPU-{i}", product="H200", device_file=path)
        for i, path in enumerate(("/dev/full", "/dev/zero"))
    )
    monkeypatch.setattr(hardware, "find_gpus", lambda: gpus)

    async def test(api: Client) -> None:
        script = "for one in full zero; do head -c 1 /dev/$one >/dev/null 2>&1 && echo $one; done; "
        script += "echo $CUDA_VISIBLE_DEVICES"
        for name, count in (("first", "1"), ("none", "0"), ("both", "2")):
            await api.run(container("main", "sh", "-c", script, resources={"limits": {GPU: count}}), name=name)
            await api.phase("Succeeded", name)
        assert [(await api.logs(name)).split() for name in ("first", "none", "both")] == [
            ["full", "0"],
            [],
            ["full", "zero", "0,1"],
        ]

    scenario(api_server, test)
