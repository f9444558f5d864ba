"""The nodes, topologies and reservations of a workload file."""

from __future__ import annotations

from pathlib import Path

import pytest

from phalanx.cli.study.simulation.workload_nodes import WorkloadSite, read_site
from phalanx.dialects.schema.fields import Fields, Misread
from phalanx.errors import PhalanxError
from tests.cli.test_workload_file import read


def site(**said: object) -> WorkloadSite:
    return read_site(Fields(said))


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        (
            "nodes:\n- {taints: [{key: a, effect: Never}]}\n",
            "2: nodes[0].taints[0].effect: 'Never' is not one of",
        ),
        ("nodes:\n- {taints: [{value: a}]}\n", "2: nodes[0].taints[0].key: it has no key"),
        ("nodes:\n- {devices: [{name: a}, {name: a}]}\n", "2: nodes[0].devices: there are two devices 'a'"),
        (
            "nodes:\n- allocatable: {nvidia.com/gpu: 3}\n  devices: [{name: a, count: 4}]\n",
            "3: nodes[0].devices: 4 devices of nvidia.com/gpu are listed, but allocatable has 3",
        ),
        ("nodes:\n- {devices: [{name: a, memory: -1}]}\n", "2: nodes[0].devices[0].memory: -1 is negative"),
        ("topologies:\n- {levels: []}\n", "2: topologies[0].levels: a topology must have at least one level"),
        ("reservations:\n- {name: a, start: 0, end: 1}\n", "2: reservations[0].nodes: it reserves no nodes"),
        (
            "nodes: [{name: n}]\nreservations:\n- {name: a, start: 2h, end: 1h, nodes: [n]}\n",
            "3: reservations[0].end: it ends before it begins",
        ),
        (
            "nodes: [{name: n}]\nreservations:\n- {name: a, start: 1h, end: 2h, nodes: [n-0]}\n",
            "3: reservations[0].nodes[0]: there is no node 'n-0', and no entry of nodes with this name",
        ),
        ("reservations:\n- {start: 0}\n", "2: reservations[0].name: it has no name"),
    ],
)
def test_what_is_wrong_is_said_with_its_line(tmp_path: Path, text: str, complaint: str) -> None:
    with pytest.raises(PhalanxError) as raised:
        read(tmp_path, text)
    assert f"own.yaml:{complaint}" in str(raised.value)


def test_a_cluster_s_file_says_its_racks_and_reservations(tmp_path: Path) -> None:
    cluster = (
        "topologies: [{levels: [rack]}]\n"
        "nodes: [{name: n, count: 2, labels: {rack: a}}]\n"
        "reservations: [{name: r, start: 1, end: 2, nodes: [n]}]\n"
    )
    found = read(tmp_path, "jobs: [{id: a, run: 1, reservation: r}]\n", cluster)
    assert [each.levels for each in found.topologies] == [("rack",)]
    assert [(each.start_s, each.nodes) for each in found.reservations] == [(1, ("n-0", "n-1"))]
    with pytest.raises(PhalanxError, match="the reservation s names the node m, which the cluster does not have"):
        read(tmp_path, "reservations: [{name: s, start: 1, end: 2, nodes: [m]}]\n", cluster)


def test_nodes_of_one_entry_are_numbered_in_the_order_of_their_names() -> None:
    nodes = site(nodes=[{"name": "n", "count": 11}]).nodes
    assert [node.name for node in nodes] == [f"n-{index:02}" for index in range(11)]
    assert [dict(node.labels)["kubernetes.io/hostname"] for node in nodes] == [node.name for node in nodes]


def test_each_gpu_without_a_name_becomes_a_device() -> None:
    [node] = site(nodes=[{"allocatable": {"nvidia.com/gpu": 2}, "devices": [{"name": "nic", "resource": "nic"}]}]).nodes
    assert [(device.name, device.resource) for device in node.devices] == [
        ("nic", "nic"),
        ("gpu-0", "nvidia.com/gpu"),
        ("gpu-1", "nvidia.com/gpu"),
    ]
    assert dict(node.allocatable)["nic"] == 1


def test_two_nodes_of_one_name_are_refused() -> None:
    with pytest.raises(Misread, match="there are two nodes with the name 'n-1'"):
        site(nodes=[{"name": "n", "count": 2}, {"name": "n-1"}])
