"""`state/nodes/devices.py`: the free part of each device, and of each NUMA zone."""

from __future__ import annotations

from dataclasses import replace

import pytest

from phalanx.model.node import Device, Node, Zone
from phalanx.model.pod import DeviceShare, amounts
from phalanx.state.nodes.devices import WHOLE_DEVICE, DeviceTable, DeviceUse, device_use, zone_in
from tests.core.builders import node

GIB = 2**30
HALF = device_use(DeviceShare("gpu", milli=500))


def gpus(count: int, **fields: object) -> Node:
    devices = tuple(
        Device(name=f"g{at}", resource="gpu", memory_bytes=80 * GIB, zone=f"z{at % 2}") for at in range(count)
    )
    return replace(node("n", gpu=count), devices=devices, **fields)


def table(count: int = 2) -> DeviceTable:
    devices = DeviceTable(1)
    devices.write(0, gpus(count))
    return devices


@pytest.mark.parametrize(
    ("share", "milli", "memory"),
    [
        (None, 1000, 80 * GIB),
        (DeviceShare("gpu", milli=250), 250, 20 * GIB),
        (DeviceShare("gpu", memory_bytes=20 * GIB), 250, 20 * GIB),
        (DeviceShare("gpu", memory_bytes=1), 0, 1),
    ],
)
def test_a_share_in_thousandths_is_a_share_of_the_memory_and_the_reverse(
    share: DeviceShare | None, milli: int, memory: int
) -> None:
    assert device_use(share).of(80 * GIB) == (milli, memory)


def test_a_device_without_memory_is_held_whole_by_a_share_in_bytes() -> None:
    assert DeviceUse("gpu", memory_bytes=5).of(0) == (1000, 5)


def test_a_shared_device_leaves_the_count_and_returns_with_its_last_share() -> None:
    devices = table()
    assert devices.hold(0, ["g0"], HALF, ()) == {"gpu": 1}
    assert devices.hold(0, ["g0"], HALF, ()) == {"gpu": 0}
    assert devices.milli[0].tolist() == [0, 1000]
    assert devices.drop(0, ["g0"], HALF, ()) == {"gpu": 0}
    assert devices.memory[0].tolist() == [40 * GIB, 80 * GIB]
    assert devices.drop(0, ["g0"], HALF, ()) == {"gpu": -1}
    assert devices.milli[0].tolist() == [1000, 1000]


def test_a_whole_device_is_counted_by_its_node_and_may_be_held_twice_for_a_while() -> None:
    """A terminating pod and a nomination hold the same device."""
    devices = table()
    assert devices.hold(0, ["g1"], WHOLE_DEVICE, ()) == {}
    devices.hold(0, ["g1"], WHOLE_DEVICE, ())
    assert devices.milli[0].tolist() == [1000, -1000]


def test_pods_hold_their_devices_while_the_list_of_devices_changes() -> None:
    devices = table()
    devices.hold(0, ["g0"], HALF, ())
    devices.write(0, None)
    assert devices.milli[0].tolist() == [0, 0]
    devices.write(0, gpus(3))
    assert devices.milli[0].tolist() == [500, 1000, 1000]
    copy = devices.copy()
    copy.drop(0, ["g0"], HALF, ())
    assert copy.milli[0].tolist() == [1000, 1000, 1000]
    assert devices.milli[0].tolist() == [500, 1000, 1000]


def test_a_zone_has_the_amounts_that_its_pods_hold() -> None:
    zones = tuple(Zone(name=f"z{at}", allocatable=amounts({"cpu": 8})) for at in range(2))
    devices = DeviceTable(1)
    devices.write(0, gpus(2, zones=zones))
    assert devices.zoned["cpu"][0].tolist() == [8, 8]
    assert devices.zone[0].tolist() == [0, 1]
    asks = amounts({"cpu": 3})
    devices.hold(0, ["g1", "zone/z1"], WHOLE_DEVICE, asks)
    assert devices.known["cpu"][0].tolist() == [0, 3]
    devices.drop(0, ["g1", "zone/z1"], WHOLE_DEVICE, asks)
    assert devices.known["cpu"][0].tolist() == [0, 0]
    assert (zone_in(["g1", "zone/z1"]), zone_in(["g1"])) == ("z1", None)
