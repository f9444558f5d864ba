"""What all pods of a node share: limits, device files and variables."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from phalanx.embedded.node.machine.settings import NodeSettings
from phalanx.embedded.node.machine.surroundings import Surroundings

MIB = 1 << 20


def surroundings(**said: Any) -> Surroundings:
    """The surroundings of a machine with four CPUs and 8 GiB, of which only some fields are there."""
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


def container(memory: str | None = None, cpu: str | None = None, **more: Any) -> dict[str, Any]:
    limits = {name: text for name, text in (("memory", memory), ("cpu", cpu)) if text is not None}
    return {"name": "c", "resources": {"limits": limits}, **more}


SIDECAR = {"restartPolicy": "Always"}


@pytest.mark.parametrize(
    ("spec", "mib"),
    [
        ({"containers": [container("1Mi"), container("2Mi")]}, 3),
        ({"containers": [container("1Mi")], "initContainers": [container("4Mi"), container("2Mi")]}, 4),
        ({"containers": [container("1Mi")], "initContainers": [container("2Mi", **SIDECAR)]}, 3),
        # an init container runs beside the sidecars before it
        ({"containers": [container("1Mi")], "initContainers": [container("1Mi", **SIDECAR), container("4Mi")]}, 5),
        ({"containers": [container("1Mi")], "initContainers": [container("4Mi"), container("1Mi", **SIDECAR)]}, 4),
        ({"containers": [container("1Mi"), container()]}, None),
        ({"containers": [container("1Mi")], "initContainers": [container()]}, None),
    ],
)
def test_the_memory_of_a_pod_is_the_most_that_runs_at_a_time(spec: dict[str, Any], mib: int | None) -> None:
    found = surroundings().limits_of_pod(spec).memory_limit_bytes
    assert found == (None if mib is None else mib * MIB)


def test_a_missing_limit_is_the_default_and_never_below_the_request() -> None:
    machine = surroundings(settings={"default_memory_bytes": 2 * MIB})
    assert machine.limits({}, {}).memory_limit_bytes == 2 * MIB
    assert machine.limits({"memory": 3 * MIB}, {}).memory_limit_bytes == 3 * MIB
    assert machine.limits({}, {"memory": MIB}).memory_limit_bytes == MIB


@pytest.mark.parametrize(
    ("settings", "default"),
    [({}, 0), ({"shared": True}, 2 << 30), ({"shared": True, "default_memory_bytes": 0}, 0)],
)
def test_on_a_shared_machine_the_default_is_the_memory_of_a_cpu(settings: dict[str, Any], default: int) -> None:
    assert surroundings(settings=settings).default_memory_bytes == default


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
