"""`agent/allocation.py`: what a pod gets of a node, or why the node rejects it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from phalanx.embedded.node.agent.allocation import HeldResources, PodAllocation, allocate
from phalanx.embedded.node.pod.admission import GPU, Rejection
from phalanx.embedded.node.pod.record import PodRecord
from tests.embedded.node.objects import Object, asking, container, node, pod

NODE = {**node(), "status": {"allocatable": {"cpu": "4"}}}
CPUS = ((0, 1), (2, 3))
NIC = "example.org/nic"


def record(**more: Any) -> PodRecord:
    return PodRecord(uid="u", namespace="default", name="p", pod_ip="10.0.0.1", start_time="", **more)


def given(
    wanted: Object, *records: PodRecord, specs: Sequence[Object] = (), gpus: int = 2
) -> PodAllocation | Rejection:
    """Return the answer of a node with 4 CPUs of which each may be exclusive, GPUs, and two network cards."""
    pool: Any = SimpleNamespace(resources=(NIC,), free=lambda resource, used: sorted({"a", "b"} - set(used)))
    around: Any = SimpleNamespace(
        allocatable={"cpu": "4", "memory": "1Gi", "pods": "10", GPU: "2", NIC: "2"},
        device_ids=lambda: [str(number) for number in range(2)],
        devices=pool,
        settings=SimpleNamespace(static_cpus=True),
    )
    return allocate(wanted, NODE, HeldResources(specs=specs, records=records), around, CPUS)


def guaranteed(cpu: str) -> Object:
    return pod(container(resources={"limits": {"cpu": cpu, "memory": "64Mi"}}))


def test_a_pod_without_requests_gets_nothing_of_its_own() -> None:
    assert given(pod()) == PodAllocation(devices={"main": ()})


def test_devices_and_cpus_that_others_hold_are_left_out() -> None:
    held = record(devices={"main": ("0",)}, named={"main": {NIC: ("a",)}}, cpus={"main": (0,)})
    found = given(pod(asking(**{GPU: "1", NIC: "1"})), held)
    assert found == PodAllocation(devices={"main": ("1",)}, named={"main": {NIC: ("b",)}})
    found = given(guaranteed("1"), held)
    assert isinstance(found, PodAllocation)
    assert found.cpus == {"main": (1,)}


@pytest.mark.parametrize(
    ("wanted", "held", "message"),
    [
        (pod(asking(**{GPU: "1"})), {"devices": {"main": ("0", "1")}}, f"unavailable for {GPU}, which is unexpected"),
        (
            pod(asking(**{NIC: "1"})),
            {"named": {"main": {NIC: ("a", "b")}}},
            f"unavailable for {NIC}. Requested: 1, Available: 0, which is unexpected",
        ),
        (
            guaranteed("2"),
            {"cpus": {"main": (0, 1)}},
            "not enough cpus available to satisfy request: requested=2, available=1",
        ),
    ],
    ids=["GPUs", "other devices", "exclusive CPUs"],
)
def test_what_is_held_is_not_given_again(wanted: Object, held: Mapping[str, Any], message: str) -> None:
    found = given(wanted, record(**held))
    assert isinstance(found, Rejection)
    assert found.reason == "UnexpectedAdmissionError"
    assert found.message.endswith(message)


def test_the_requests_of_all_pods_must_fit_together() -> None:
    other = pod(asking(cpu="3"))["spec"]
    assert isinstance(given(pod(asking(cpu="1")), specs=[other]), PodAllocation)
    rejection = given(pod(asking(cpu="2")), specs=[other])
    assert isinstance(rejection, Rejection)
    assert rejection.reason == "OutOfcpu"


def test_an_amount_that_cannot_be_read_is_a_rejection() -> None:
    rejection = given(pod(asking(cpu="much")))
    assert isinstance(rejection, Rejection)
    assert rejection.reason == "UnexpectedAdmissionError"
