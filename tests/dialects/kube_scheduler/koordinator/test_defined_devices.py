"""Requests of GPUs and cards in percent, and the annotation about the assigned ones."""

from __future__ import annotations

import json

import pytest

from phalanx.dialects.frame.dialect import DeviceAsk, Object
from phalanx.dialects.kube_scheduler.koordinator.definitions.defined import allocated, device_ask, read_devices
from phalanx.model.node import Device
from phalanx.model.pod import DeviceShare

K = "koordinator.sh/"
GPUS = "nvidia.com/gpu"
GI = 2**30


def listed(kind: str, minor: int, zone: int = 0, *, health: bool = True) -> Object:
    resources = {f"{K}gpu-memory": "16Gi"} if kind == "gpu" else {}
    return {"type": kind, "minor": minor, "health": health, "topology": {"nodeID": zone}, "resources": resources}


def test_a_node_has_the_healthy_devices_by_their_minors() -> None:
    devices = [listed("gpu", 0), listed("gpu", 1, health=False), listed("rdma", 0, 1), listed("odd", 0)]
    obj: Object = {"metadata": {"name": "n1"}, "spec": {"devices": devices}}
    gpu = Device(name="0", resource=GPUS, memory_bytes=16 * GI, zone="0")
    assert read_devices(obj) == (gpu, Device(name="rdma-0", resource=f"{K}rdma", zone="1"))
    obj["metadata"]["labels"] = {"node.koordinator.sh/gpu-vendor": "amd"}
    assert read_devices(obj)[0].resource == "amd.com/gpu"


@pytest.mark.parametrize(
    ("asks", "whole", "share"),
    [
        ({f"{K}gpu": 50}, (), DeviceShare(resource=GPUS, milli=500)),
        ({f"{K}gpu": 200}, ((GPUS, 2),), None),
        ({f"{K}gpu-core": 30, f"{K}gpu-memory-ratio": 40}, (), DeviceShare(resource=GPUS, milli=400)),
        ({f"{K}gpu-memory": "8Gi"}, (), DeviceShare(resource=GPUS, memory_bytes=8 * GI)),
        (
            {f"{K}gpu.shared": 2, f"{K}gpu-core": 100, f"{K}gpu-memory": "8Gi"},
            (),
            DeviceShare(resource=GPUS, memory_bytes=4 * GI, count=2),
        ),
        ({f"{K}gpu.shared": 2, f"{K}gpu-memory-ratio": 200}, ((GPUS, 2),), None),
        ({f"{K}gpu": 100, f"{K}rdma": 100}, ((f"{K}rdma", 1), (GPUS, 1)), None),
        ({f"{K}gpu": 100, f"{K}rdma": 50}, ((GPUS, 1),), DeviceShare(resource=f"{K}rdma", milli=500)),
    ],
)
def test_percents_are_parts_or_whole_devices(
    asks: Object, whole: tuple[tuple[str, int], ...], share: DeviceShare | None
) -> None:
    spec = {"containers": [{"resources": {"requests": asks}}]}
    assert device_ask({"spec": spec}) == DeviceAsk(instead=frozenset(asks), whole=tuple(sorted(whole)), share=share)


@pytest.mark.parametrize(
    ("asks", "wrong"),
    [
        ({f"{K}gpu-core": 50}, "invalid resource device requests: [koordinator.sh/gpu-core]"),
        ({f"{K}gpu": 50, f"{K}gpu-memory": "8Gi"}, "invalid resource device requests"),
        ({f"{K}gpu.shared": 3, f"{K}gpu-memory-ratio": 100}, "invalid resource device requests"),
        ({f"{K}gpu": 150}, "invalid resource unit"),
        ({f"{K}rdma": 150}, "invalid resource unit koordinator.sh/rdma: 150"),
        ({f"{K}gpu": 50, f"{K}rdma": 50}, "parts of several kinds"),
    ],
)
def test_other_mixtures_are_refused(asks: Object, wrong: str) -> None:
    found = device_ask({"spec": {"containers": [{"resources": {"requests": asks}}]}})
    assert found is not None
    assert wrong in found.wrong


def test_who_asks_nothing_of_them_is_left_alone() -> None:
    assert device_ask({"spec": {"containers": [{"resources": {"requests": {GPUS: 1, "cpu": 1}}}]}}) is None


def test_what_a_pod_was_given_is_written_as_hooks_read_it() -> None:
    node = [listed("gpu", 0), listed("gpu", 1), listed("rdma", 0)]

    def given(asks: Object, *names: str) -> Object:
        text = allocated({"spec": {"containers": [{"resources": {"requests": asks}}]}}, node, names)
        return dict(json.loads(text)) if text else {}

    half = {f"{K}gpu-core": "50", f"{K}gpu-memory-ratio": "50", f"{K}gpu-memory": "8Gi"}
    all_of_it = {f"{K}gpu-core": "100", f"{K}gpu-memory-ratio": "100", f"{K}gpu-memory": "16Gi"}
    card = {"minor": 0, "resources": {f"{K}rdma": "100"}}
    assert given({f"{K}gpu": 50}, "zone/0", "1") == {"gpu": [{"minor": 1, "resources": half}]}
    assert given({GPUS: 1, f"{K}rdma": 100}, "0", "rdma-0") == {
        "gpu": [{"minor": 0, "resources": all_of_it}],
        "rdma": [card],
    }
    memory = {f"{K}gpu-memory": "4Gi", f"{K}gpu-memory-ratio": "25"}
    assert given({f"{K}gpu-memory": "4Gi"}, "0") == {"gpu": [{"minor": 0, "resources": memory}]}
    assert given({"cpu": 1}) == {}
