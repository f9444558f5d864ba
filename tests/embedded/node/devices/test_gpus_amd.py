"""AMD's GPUs: found by what their driver lists in files, and given with the files that ROCm opens."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from phalanx.embedded.node.machine.devices.gpus import AmdGpu, AmdGpus, find_amd_gpus
from phalanx.embedded.node.machine.devices.pool import DeviceFile
from phalanx.embedded.node.run import hardware
from phalanx.errors import PhalanxError
from tests.embedded.apiserver.process import ServerProcess
from tests.embedded.node.machine import Client, scenario
from tests.embedded.node.objects import container

FIRST = AmdGpu(index=0, unique_id="4eb5a9c0d2f1e0a7", render_file="/dev/dri/renderD128")
SECOND = AmdGpu(index=1, unique_id="", render_file="/dev/dri/renderD129")


def test_nodes_of_the_driver_with_simd_units_are_gpus(tmp_path: Path) -> None:
    nodes = {
        "10": "simd_count 0\ncpu_cores_count 64\n",
        "2": f"simd_count 304\ndrm_render_minor 128\nunique_id {0x4EB5A9C0D2F1E0A7}\n",
        "3": "simd_count 304\ndrm_render_minor 129\nunique_id 0\n",
        "4": "",
    }
    for name, text in nodes.items():
        (tmp_path / name).mkdir()
        (tmp_path / name / "properties").write_text(text)
    assert find_amd_gpus(tmp_path) == (FIRST, SECOND)
    assert find_amd_gpus(tmp_path / "no-driver") == ()


def test_a_container_is_given_its_gpus_and_what_all_share() -> None:
    source = AmdGpus((FIRST, SECOND))
    granted = asyncio.run(source.allocate(("1",)))
    assert granted.env == {"ROCR_VISIBLE_DEVICES": "1"}
    assert granted.files == tuple(DeviceFile(source=p, target=p) for p in ("/dev/kfd", "/dev/dri/renderD129"))
    assert source.files() == {"/dev/kfd", "/dev/dri/renderD128", "/dev/dri/renderD129"}
    with pytest.raises(PhalanxError, match="no GPU 7 any more"):
        asyncio.run(source.allocate(("7",)))


@pytest.mark.slow
def test_they_are_offered_and_given_to_one_at_a_time(
    api_server: ServerProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    gpus = (
        AmdGpu(index=0, unique_id="", render_file="/dev/full"),
        AmdGpu(index=1, unique_id="", render_file="/dev/zero"),
    )
    monkeypatch.setattr(hardware, "find_amd_gpus", lambda: gpus)

    async def test(api: Client) -> None:
        for name in ("a", "b"):
            one = container("main", "sh", "-c", "echo $ROCR_VISIBLE_DEVICES; sleep 1000")
            one["resources"] = {"limits": {"amd.com/gpu": "1"}}
            await api.run(one, name=name, terminationGracePeriodSeconds=0)
            await api.phase("Running", name)
        await api.run(container("main", "true", resources={"limits": {"amd.com/gpu": "1"}}), name="c")
        pod = await api.phase("Failed", "c")
        assert pod["status"]["reason"] == "OutOfamd.com/gpu"
        assert sorted([await api.logs(name) for name in ("a", "b")]) == ["0", "1"]
        for name in ("a", "b"):
            await api.delete(name, gracePeriodSeconds=0)

    scenario(api_server, test)
