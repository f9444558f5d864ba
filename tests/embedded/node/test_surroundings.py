"""The settings that all pods of a node share: device files, owners and variables."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from phalanx.embedded.node.machine.settings import NodeSettings
from phalanx.embedded.node.machine.surroundings import Surroundings

MIB = 1 << 20


def surroundings(**said: Any) -> Surroundings:
    """Return the surroundings of a machine with four CPUs and 8 GiB. Only some fields are set."""
    found = object.__new__(Surroundings)
    settings = NodeSettings(data_dir=Path("/data"), **said.pop("settings", {}))
    usual = {
        "settings": settings,
        "allocatable": {"cpu": "4", "memory": "8Gi"},
        "rdma_cards": (),
        "gpus": (),
        "owners": None,
    }
    for name, value in (usual | said).items():
        object.__setattr__(found, name, value)
    return found


def test_gpus_are_numbered_where_the_machine_has_none() -> None:
    machine = surroundings(allocatable={"nvidia.com/gpu": "2"})
    assert machine.device_ids() == ["0", "1"]
    three = tuple(SimpleNamespace(index=f"g{at}", device_file="") for at in range(3))
    assert surroundings(allocatable={"nvidia.com/gpu": "2"}, gpus=three).device_ids() == ["g0", "g1"]
    assert surroundings().device_ids() == []


def test_a_container_gets_its_device_files_and_none_of_others(tmp_path: Path) -> None:
    files = [tmp_path / name for name in ("gpu0", "gpu1")]
    files[0].touch()
    gpus = tuple(SimpleNamespace(index=str(at), device_file=str(file)) for at, file in enumerate(files))
    devices = SimpleNamespace(known_files={"/dev/nic"})
    machine = surroundings(gpus=gpus, devices=devices)
    assert machine.device_files(["0", "1"])[0] == str(files[0])
    assert str(files[1]) not in machine.device_files(["0", "1"]), "a file that is not there"
    assert machine.others_files([str(files[0])]) == tuple(sorted([str(files[1]), "/dev/nic"]))


def test_pods_of_root_run_as_the_agent() -> None:
    users = {"root": 0, "ada": 1000}
    owners = SimpleNamespace(of=lambda namespace: SimpleNamespace(user=users[namespace]))
    machine = surroundings(owners=owners)
    assert machine.owner("root") is None
    assert machine.owner("ada").user == 1000
    assert surroundings().owner("ada") is None


@pytest.mark.parametrize(
    ("server", "port"), [("https://h:6443", "6443"), ("https://h", "443"), ("https://[::1]:6443", "6443")]
)
def test_variables_of_every_container(server: str, port: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/own/bin")
    machine = surroundings(connection=SimpleNamespace(server=server))
    found = machine.variables()
    assert (found["KUBERNETES_SERVICE_PORT"], found["PATH"]) == (port, "/own/bin")
    own = machine.variables(own_root=True)
    assert "HOME" not in own
    assert own["PATH"] != "/own/bin"
