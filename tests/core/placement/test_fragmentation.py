"""The devices of a node that are lost to pods that are too large and to missing cpu, and the effect of a pod on
them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from phalanx.core.placement.scoring.fragmentation import SCARCE, STRANDED, UNTIDY, WANTED, TypicalPods, gains, rounded
from phalanx.model.node import Device, Node
from phalanx.model.pod import CPU, DeviceShare, Shape, amounts
from phalanx.state.classes import InternTable
from phalanx.state.nodes.table import NodeTable

GPU = "nvidia.com/gpu"


def node(name: str, cpus: int, gpus: int) -> Node:
    devices = tuple(Device(name=f"g{at}", resource=GPU) for at in range(gpus))
    return Node(name=name, allocatable=amounts({CPU: cpus * 1000, GPU: gpus, "pods": 99}), devices=devices)


def shape(cpus: int, gpus: int = 0, milli: int = 0) -> Shape:
    share = DeviceShare(resource=GPU, milli=milli) if milli else None
    return Shape(requests=amounts({CPU: cpus * 1000, GPU: gpus}), share=share)


def columns(*nodes: Node) -> NodeTable:
    found = NodeTable()
    for each in nodes:
        found.update(each)
    return found


def rows(count: int) -> np.ndarray:
    return np.arange(count)


@pytest.fixture
def two() -> NodeTable:
    return columns(node("a", 12, 4), node("b", 40, 4))


def test_devices_that_the_next_pod_cannot_use_are_lost(two: NodeTable) -> None:
    typical = TypicalPods(two, [(shape(4, gpus=1), 3.0), (shape(4, gpus=2), 1.0)], GPU)
    left = np.array([[1000, 0, 0, 0], [1000, 1000, 500, 0]])
    # a: pairs, one pod in four, can use nothing of one device; b: neither kind can use the half
    assert typical.lost(rows(2), np.array([12_000, 40_000]), left).tolist() == [250.0, 500.0]


def test_devices_without_cpu_are_stranded(two: NodeTable) -> None:
    typical = TypicalPods(two, [(shape(4, gpus=1), 1.0)], GPU)
    cpu, left = np.array([8_000, 40_000]), np.full((2, 4), 1000)
    assert typical.lost(rows(2), cpu, left).tolist() == [0.0, 0.0]
    tidy = 4000 * UNTIDY + 4 * typical.remnants[1000]
    assert typical.wasted(rows(2), cpu, left).tolist() == [2000 * STRANDED + tidy, tidy]


def test_the_remnant_of_a_device_is_what_pods_to_come_leave(two: NodeTable) -> None:
    halves = TypicalPods(two, [(shape(4, milli=500), 1.0)], GPU).remnants
    assert (halves[0], halves[499]) == (0, 499)  # nobody takes less than a half
    assert halves[500] == round(SCARCE * 500 / (1 + SCARCE), 3)
    assert halves[1000] == round((SCARCE * 1000 + halves[500]) / (1 + SCARCE), 3)
    mixed = TypicalPods(two, [(shape(4, milli=470), 2.0), (shape(4, milli=320), 1.0), (shape(4, gpus=1), 1.0)], GPU)
    fitting = SCARCE * 530 + 0.5 * mixed.remnants[60] + 0.25 * mixed.remnants[210]
    assert mixed.remnants[530] == round(fitting / (SCARCE + 0.75), 3)


def test_cpu_per_device_is_what_all_pods_ask_but_no_more_than_there_is(two: NodeTable) -> None:
    assert TypicalPods(two, [(shape(4, gpus=1), 1.0), (shape(2), 1.0)], GPU).cpu_per_device == 6000
    assert TypicalPods(two, [(shape(3, milli=500), 1.0)], GPU).cpu_per_device == 6000
    assert TypicalPods(two, [(shape(4, gpus=1), 1.0), (shape(64), 1.0)], GPU).cpu_per_device == 52_000 / 8
    assert TypicalPods(two, [(shape(4), 1.0)], GPU).cpu_per_device == 0


def test_a_pod_that_asks_much_cpu_wastes_less_where_cpu_is_plenty(two: NodeTable) -> None:
    hungry, lean = shape(5, gpus=1), shape(3, gpus=1)
    typical, left = TypicalPods(two, [(hungry, 1.0), (lean, 1.0)], GPU), np.full((2, 4), 1000)
    cpu, interned = np.array([12_000, 40_000]), InternTable()
    for pod, better in ((hungry, 1), (lean, 0)):
        demand = interned.demand(pod)
        found = gains(typical, demand, rows(2), cpu, left, TypicalPods.wasted)[:, 0]
        assert found.argmax() == better
        by_fragmentation = gains(typical, demand, rows(2), cpu, left)[:, 0]
        assert by_fragmentation[0] == by_fragmentation[1]


def test_a_lean_pod_does_not_break_up_a_whole_node() -> None:
    # The large node has 12 cpu per device, less than the 15 that the pods to come ask, those without devices counted.
    # So some of the node is stranded, and less with a lean pod on it. But then no pod that needs the whole node finds
    # one.
    found = columns(node("large", 96, 8), node("small", 104, 2))
    lean, whole, hungry = shape(2, gpus=1), shape(90, gpus=8), shape(16)
    typical = TypicalPods(found, [(lean, 9.0), (whole, 1.0), (hungry, 9.0)], GPU)
    assert 14_000 < typical.cpu_per_device < 15_000
    left = np.array([[1000] * 8, [1000] * 2 + [0] * 6])
    gained = gains(typical, InternTable().demand(lean), rows(2), np.array([96_000, 104_000]), left, TypicalPods.wasted)[
        :, 0
    ]
    assert gained.argmax() == 1


def test_where_many_can_go_nowhere_else_others_go_last() -> None:
    two = columns(node("plain", 40, 4), replace(node("model", 40, 4), labels=(("model", "m"),)))
    any_node, only_there = shape(4, gpus=1), replace(shape(4, gpus=1), selector=(("model", "m"),))
    typical = TypicalPods(two, [(any_node, 3.0), (only_there, 1.0)], GPU)
    # Three devices are asked of eight, and one of the four of the second node: 3/8, and 3/8 + 1/4; the mean is 1/2.
    assert typical.wanted[:2].tolist() == [0.75, 1.25]
    left = np.full((2, 4), 1000)
    gained = gains(typical, InternTable().demand(any_node), rows(2), np.full(2, 40_000), left, TypicalPods.wasted)[:, 0]
    by_fragmentation = 0.25 * 1000  # on the first, one in four could not use the device that it takes
    used = UNTIDY * 1000 + typical.remnants[1000]
    assert gained.tolist() == pytest.approx([by_fragmentation + used + WANTED / 4 * 1000, used - WANTED / 4 * 1000])
    assert TypicalPods(two, [(any_node, 3.0)], GPU).wanted[:2].tolist() == [1, 1]


def test_where_it_does_not_fit_nothing_is_gained() -> None:
    assert rounded(np.array([-np.inf, 0.0, 2000.0])).tolist() == [-np.inf, 50.0, 88.0]
