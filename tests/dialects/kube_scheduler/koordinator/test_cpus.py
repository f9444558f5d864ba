"""Cores and NUMA zones of nodes, and what pods with cpus of their own ask of them and are told."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

import pytest

from phalanx.dialects.frame.dialect import DeviceAsk, Object
from phalanx.dialects.kube_scheduler.koordinator import kinds
from phalanx.dialects.kube_scheduler.koordinator.definitions import cpus
from phalanx.dialects.kube_scheduler.koordinator.definitions.cpus import ClusterCpus, NodeCpus
from phalanx.model.node import Device, Zone

POLICIES = ("requiredCPUBindPolicy", "preferredCPUBindPolicy")


def topology(cores: int, *, threads: int = 2, zones: int = 2, **said: Any) -> Object:
    """Return a node of `cores` cores. The second threads are numbered after all first ones, as in Linux."""
    detail = [
        {"id": core + thread * cores, "core": core, "socket": 0, "node": core * zones // cores}
        for thread in range(threads)
        for core in range(cores)
    ]
    words = dict(zip(("allocated", "kept", "kubelet"), cpus.SAID[1:], strict=True))
    notes = {cpus.SAID[0]: json.dumps({"detail": detail})} | {
        words[key]: json.dumps(text) for key, text in said.items()
    }
    return {"metadata": {"name": "n1", "annotations": notes}}


def pod(cpu: str = "4", *, qos: str = "LSR", priority: int | None = 9000, node: str = "", **notes: Any) -> Object:
    words = {"spec": cpus.SPEC, "numa": cpus.NUMA, "status": cpus.STATUS}
    return {
        "metadata": {
            "labels": {kinds.QOS: qos},
            "annotations": {words[key]: json.dumps(said) for key, said in notes.items()},
        },
        "spec": {
            "containers": [{"resources": {"requests": {"cpu": cpu, "memory": "1Gi"}}}],
            **({"priority": priority} if priority is not None else {}),
            **({"nodeName": node} if node else {}),
        },
    }


def known(*nodes: Object) -> ClusterCpus:
    return cpus.read_all({f"n{number}": node for number, node in enumerate(nodes, start=1)})


def names(node: NodeCpus) -> list[str]:
    return [core.name for core in node.cores]


def test_a_node_has_its_cores_by_zone_but_those_that_somebody_keeps() -> None:
    node = cpus.read_cpus(topology(4))
    assert node.devices()[:2] == (
        Device(name="core/0", resource=cpus.CORES, zone="0"),
        Device(name="core/1", resource=cpus.CORES, zone="0"),
    )
    assert [core.cpus for core in node.cores] == [(0, 4), (1, 5), (2, 6), (3, 7)]
    assert node.zones == tuple(Zone(name=name, allocatable=(("cpu", 4000),)) for name in "01")
    assert names(cpus.read_cpus(topology(4, kept={"reservedCPUs": "0"}, kubelet={"reservedCPUs": "5"}))) == [
        "core/2",
        "core/3",
    ]
    pods = [{"cpuset": "2-3", "managedByKubelet": True}, {"cpuset": "0"}, "odd"]
    assert names(cpus.read_cpus(topology(4, allocated=pods))) == ["core/0", "core/1"]


def test_zones_have_the_memory_that_the_object_says() -> None:
    memory = [{"name": "memory", "capacity": "8Gi", "allocatable": "6Gi"}, {"name": "cpu", "allocatable": "9"}]
    zones = [{"name": "node-1", "type": "Node", "resources": memory}, {"name": "fake-name", "type": "fake-type"}]
    node = cpus.read_cpus(topology(2) | {"zones": zones})
    assert node.zones[1] == Zone(name="1", allocatable=(("cpu", 2000), ("memory", 6 * 2**30)))


@pytest.mark.parametrize("text", ["", "{", "[]", '{"detail": 3}', '{"detail": [{"id": "a"}]}', "[" * 100_000])
def test_what_cannot_be_read_describes_no_cpus(text: str) -> None:
    assert cpus.read_cpus({"metadata": {"annotations": {cpus.SAID[0]: text}}}) == NodeCpus()


@pytest.mark.parametrize(
    ("asking", "cores"),
    [
        (pod("4"), 2),
        (pod("3"), 2),  # the last core is its own, too
        (pod("4", qos="LS"), 0),
        (pod("4", qos="LSE", priority=None), 2),
        (pod("4", priority=5500), 0),  # koord-batch
        (pod("4", spec={POLICIES[1]: "SpreadByPCPUs"}), 4),
        (pod("6", spec={POLICIES[1]: "SpreadByPCPUs"}), 3),  # no node has as many cores
        (pod("6", spec={POLICIES[0]: "SpreadByPCPUs"}), 6),
        (pod("4", spec={POLICIES[1]: "ConstrainedBurst"}), 0),
        (pod("4", spec={POLICIES[0]: "Default"}), 2),
    ],
)
def test_a_pod_with_cpus_of_its_own_asks_for_whole_cores(asking: Object, cores: int) -> None:
    assert cpus.cpu_ask(asking, known(topology(4))) == (cores, "")
    assert cpus.cpu_ask(asking, known()) == (0, "")  # where no node is described it asks for cpu alone


def test_what_can_be_given_to_nobody_is_said() -> None:
    assert "must be integer" in cpus.cpu_ask(pod("1500m"), known(topology(4)))[1]
    whole = pod("3", spec={POLICIES[0]: "FullPCPUs"})
    assert "not multiple cpus per core" in cpus.cpu_ask(whole, known(topology(4)))[1]
    assert cpus.cpu_ask(whole, known(topology(4), topology(4, threads=1))) == (3, "")  # there it is


@pytest.mark.parametrize(
    ("policy", "cpu", "aligned"),
    [
        ("SingleNUMANode", "9", "required"),
        ("Restricted", "4", "required"),
        ("Restricted", "5", "preferred"),
        ("BestEffort", "1", "preferred"),
        ("", "1", ""),
    ],
)
def test_zones_are_wanted_as_the_pod_says(policy: str, cpu: str, aligned: str) -> None:
    asked = cpus.with_cpus(pod(cpu, qos="LS", numa={"numaTopologyPolicy": policy}), None, known(topology(4)))
    assert (asked.aligned if asked else "") == aligned


def test_what_it_asks_stands_beside_its_gpus() -> None:
    asked = cpus.with_cpus(pod("4"), DeviceAsk(instead=frozenset({"a"}), whole=(("a", 1),)), known(topology(4)))
    assert asked == DeviceAsk(instead=frozenset({"a"}), whole=(("a", 1), (cpus.CORES, 2)), aligned="preferred")


def told(asking: Object, given: Iterable[str]) -> Any:
    text = cpus.resource_status(asking, cpus.read_cpus(topology(4)), tuple(given))
    return json.loads(text) if text else None


def test_its_cpus_are_told_core_by_core_or_one_of_each() -> None:
    assert told(pod("4"), ["core/0", "core/1"]) == {"cpuset": "0-1,4-5"}
    assert told(pod("3"), ["core/0", "core/1"]) == {"cpuset": "0-1,4"}
    spread = {POLICIES[1]: "SpreadByPCPUs"}
    assert told(pod("3", spec=spread), ["core/1", "core/2", "core/3"]) == {"cpuset": "1-3"}
    assert told(pod("6", spec=spread), ["core/1", "core/2", "core/3"]) == {"cpuset": "1-3,5-7"}
    zone = {"node": 1, "resources": {"cpu": "2", "memory": "1Gi"}}
    assert told(pod("2"), ["zone/1", "core/2"]) == {"cpuset": "2,6"}
    aligned = pod("2", numa={"numaTopologyPolicy": "Restricted"})
    assert told(aligned, ["zone/1", "core/2"]) == {"cpuset": "2,6", "numaNodeResources": [zone]}
    assert told(pod("2", qos="LS"), ["0", "rdma-1"]) is None


def test_a_pod_that_another_scheduler_placed_holds_what_it_was_given() -> None:
    nodes = known(topology(4))
    first, second = (pod("2", node="n1", status={"cpuset": text}) for text in ("0-1", "4,6"))
    assert cpus.given_cores(first, nodes.of("n1")) == ("core/0", "core/1")
    held = cpus.with_cpus(first, None, nodes)
    assert held is not None
    assert held.whole == ((cpus.CORES, 2),)
    assert cpus.given_cores(second, nodes.of("n1")) == ("core/0", "core/2")
    assert cpus.with_cpus(second, None, nodes) is None  # the second threads: nothing is counted twice
    assert cpus.with_cpus(pod("2", node="n1"), None, nodes) is None  # it runs, and none of them is its own
    forged = pod("2", node="n1", status={"cpuset": "0-7"})
    assert cpus.with_cpus(forged, None, nodes) is None


@pytest.mark.parametrize(("text", "found"), [("0-2,5", {0, 1, 2, 5}), ("", set()), ("a,1", {1}), ("3-1", set())])
def test_lists_of_cpus_are_read_and_written(text: str, found: set[int]) -> None:
    assert cpus.cpus_in(text) == found
    assert cpus.cpus_in(cpus.listed(found)) == found
