"""`node/run/node_object.py`: the labels, devices and conditions that the Node object reports."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from phalanx.embedded.node.container.cgroup import CONTROLLERS
from phalanx.embedded.node.container.isolation import Isolation
from phalanx.embedded.node.machine.machine import Gpu
from phalanx.embedded.node.pod.allotment import DEVICES
from phalanx.embedded.node.run.node_object import registration_of, warn_of_limits


def surroundings(isolation: Isolation | None = None, fence: Any = None, **said: Any) -> Any:
    """Return the surroundings of a node with one GPU, on which all limits are enforced."""
    settings = {"address": "10.0.0.1", "labels": {}, "static_cpus": False, "shared": False}
    cgroups = {"enforced": {*CONTROLLERS, "cpuset"}, "problems": [], "devices_refusal": ""}
    return SimpleNamespace(
        name="n1",
        gpus=(Gpu(index="0", product="NVIDIA H200", memory_mib=100),),
        allocatable={"nvidia.com/gpu": "1"},
        device_ids=lambda: ["0"],
        isolation=isolation or Isolation(),
        fence=fence,
        pressures=set(),
        settings=SimpleNamespace(**{key: said.get(key, value) for key, value in settings.items()}),
        cgroups=SimpleNamespace(**{key: said.get(key, value) for key, value in cgroups.items()}),
    )


def conditions(*words: Any, **said: Any) -> dict[str, tuple[str, str]]:
    """Return the status and the reason of each condition."""
    found = registration_of(surroundings(*words, **said), 1).conditions
    return {name: (status, reason) for name, status, reason, _ in found}


def test_gpus_are_in_labels_and_in_an_annotation() -> None:
    found = registration_of(surroundings(labels={"own": "label"}), 7)
    assert (found.address, found.port, found.labels["own"]) == ("10.0.0.1", 7, "label")
    assert found.labels["nvidia.com/gpu.product"] == "NVIDIA-H200"
    assert (found.labels["nvidia.com/gpu.count"], found.labels["nvidia.com/gpu.memory"]) == ("1", "100")
    [device] = msgspec.json.decode(found.annotations[DEVICES])
    assert device == {"name": "0", "resource": "nvidia.com/gpu", "memory": "100Mi"}


@pytest.mark.parametrize(
    ("isolation", "found"),
    [
        (Isolation(), ("True", "Overlayfs")),
        (Isolation(overlay_refusal="no"), ("True", "Copied")),
        (Isolation(root_refusal="no", overlay_refusal="no"), ("False", "NoNamespaces")),
    ],
)
def test_images_need_namespaces(isolation: Isolation, found: tuple[str, str]) -> None:
    assert conditions(isolation)["ImagesSupported"] == found


def test_missing_isolation_is_reported() -> None:
    assert conditions().keys() == {"ResourceLimitsEnforced", "ImagesSupported"}
    assert conditions(devices_refusal="no")["DeviceFilesWithheld"] == ("False", "NoDeviceFilter")
    assert conditions(static_cpus=True, enforced=set(CONTROLLERS))["CpusStatic"] == ("False", "NoCpuset")
    assert "CpusStatic" not in conditions(static_cpus=True)
    fences = {None: "SharedNetwork", "": "Nftables", "no nft": "SharedNetwork"}
    for refusal, reason in fences.items():
        fence = None if refusal is None else SimpleNamespace(refusal=refusal)
        assert conditions(None, fence, shared=True)["NetworkIsolated"][1] == reason


def test_limits_that_are_not_enforced_are_an_event() -> None:
    told: list[tuple[Any, ...]] = []
    for enforced in (set(CONTROLLERS), set(CONTROLLERS[1:])):
        around = surroundings(enforced=enforced, problems=["read-only"])
        around.tell = SimpleNamespace(tell=lambda *words, kind: told.append((*words, kind)))
        warn_of_limits(around, {"kind": "Node"})
    [(node, reason, message, kind)] = told
    assert (node, reason, kind) == ({"kind": "Node"}, "CgroupsNotWritable", "Warning")
    assert f"limits of {CONTROLLERS[0]} are NOT enforced: read-only" in message
