"""What pods want of other pods and of their nodes, from their specs to where they run."""

from __future__ import annotations

from typing import Any

import pytest

from phalanx.kube.read.node import read_node
from phalanx.kube.read.template.pod_shape import PodRequirements, ShapeCache
from phalanx.model.node import Device, Zone
from phalanx.model.pod import (
    DeviceShare,
    HostPort,
    NodePreference,
    Operator,
    PodAffinityTerm,
    Requirement,
    TopologySpread,
)
from phalanx.model.reason import ReasonCode
from tests import clockwork
from tests.kube import double
from tests.kube.double import Object, job, node, pod
from tests.kube.stage import Stage

HOST = "kubernetes.io/hostname"
WEB = {"matchLabels": {"app": "web"}}
IS_WEB = (Requirement("app", Operator.IN, ("web",)),)


def read(spec: dict[str, Any], **meta: Any) -> PodRequirements:
    return ShapeCache().of_pod({"containers": [], **spec}, meta={"namespace": "default", **meta})


def affinity(kind: str, **rules: Any) -> dict[str, Any]:
    return {"affinity": {kind: {f"{name}DuringSchedulingIgnoredDuringExecution": rule for name, rule in rules.items()}}}


def test_affinity_between_pods() -> None:
    term = {"topologyKey": "zone", "labelSelector": WEB}
    shape = read(affinity("podAffinity", required=[term], preferred=[{"weight": 5, "podAffinityTerm": term}])).shape
    assert shape.near == (PodAffinityTerm("zone", IS_WEB), PodAffinityTerm("zone", IS_WEB, weight=5))
    everywhere = {**term, "namespaceSelector": {}}
    assert read(affinity("podAntiAffinity", required=[everywhere])).shape.away == (
        PodAffinityTerm("zone", IS_WEB, ("*",)),
    )


def test_preferred_nodes_spread_and_ports() -> None:
    here = {"matchExpressions": [{"key": "disk", "operator": "Exists"}]}
    shape = read(affinity("nodeAffinity", preferred=[{"weight": 7, "preference": here}])).shape
    assert shape.preferences == (NodePreference(7, (Requirement("disk", Operator.EXISTS),)),)
    rule = {"topologyKey": "zone", "maxSkew": 2, "labelSelector": WEB, "minDomains": 3}
    rule |= {"whenUnsatisfiable": "DoNotSchedule"}
    loose = {**rule, "whenUnsatisfiable": "ScheduleAnyway", "minDomains": None}
    assert read({"topologySpreadConstraints": [rule, loose]}).shape.spread == (
        TopologySpread("zone", 2, IS_WEB, min_domains=3),
        TopologySpread("zone", 2, IS_WEB, required=False),
    )
    ports = [{"hostPort": 80, "containerPort": 8080}, {"hostPort": 53, "protocol": "UDP", "hostIP": "10.0.0.1"}]
    assert read({"containers": [{"ports": ports}]}).shape.ports == (HostPort(53, "UDP", "10.0.0.1"), HostPort(80))


def test_a_part_of_a_gpu() -> None:
    assert read({}, annotations={"phalanx.dev/gpu-fraction": "0.25"}).shape.share == DeviceShare(
        "nvidia.com/gpu", milli=250
    )
    assert read({}, annotations={"phalanx.dev/gpu-memory": "8Gi"}).shape.share == DeviceShare(
        "nvidia.com/gpu", memory_bytes=8 << 30
    )


def test_a_part_of_each_of_several_gpus() -> None:
    words = {"phalanx.dev/gpu-fraction": "0.5", "phalanx.dev/gpu-count": "2"}
    assert read({}, annotations=words).shape.share == DeviceShare("nvidia.com/gpu", milli=500, count=2)
    for count in ("0", "-1", "2000", "two"):
        obstacle = read({}, annotations={**words, "phalanx.dev/gpu-count": count}).obstacle
        assert obstacle is not None
        assert "phalanx.dev/gpu-count" in obstacle.text


@pytest.mark.parametrize(
    ("labels", "gpus", "known", "memory_gib"),
    [
        ({"nvidia.com/gpu.memory": "81920", "nvidia.com/gpu.count": "2"}, 2, 2, 80),
        ({"nvidia.com/gpu.memory": "81920"}, 2, 2, 80),
        ({"nvidia.com/gpu.memory": "81920", "nvidia.com/gpu.count": "2"}, 8, 0, 0),  # each GPU is handed out four times
        ({"nvidia.com/gpu.memory": "much"}, 2, 2, 0),
        ({"nvidia.com/gpu.memory": "81920"}, 0, 0, 0),
        ({}, 2, 2, 0),
        ({"nvidia.com/gpu.count": "2"}, 8, 0, 0),
    ],
)
def test_the_gpus_of_a_node_are_known_and_their_memory_by_the_label_of_nvidia(
    labels: dict[str, str], gpus: int, known: int, memory_gib: int
) -> None:
    obj = double.node("n")
    obj["metadata"]["labels"] = labels
    obj["status"]["allocatable"]["nvidia.com/gpu"] = str(gpus)
    found = read_node(obj).devices
    assert [each.name for each in found] == [str(number) for number in range(known)]
    assert {each.memory_bytes for each in found} <= {memory_gib << 30}


@pytest.mark.parametrize("value", ["2", "0", "-0.5", "half"])
def test_a_part_that_is_none_is_told(value: str) -> None:
    obstacle = read({}, annotations={"phalanx.dev/gpu-fraction": value}).obstacle
    assert obstacle is not None
    assert obstacle.code is ReasonCode.INVALID
    assert "phalanx.dev/gpu-fraction" in obstacle.text


def test_labels_belong_to_a_shape_only_when_somebody_selects_by_them() -> None:
    shapes = ShapeCache()
    meta = {"namespace": "default", "labels": {"app": "web", "build": "17"}}
    plain = shapes.of_pod({"containers": []}, meta=meta).shape
    assert (plain.labels, plain.namespace) == ((), "")
    assert not shapes.selecting
    term = {"topologyKey": HOST, "labelSelector": WEB}
    shapes.of_pod({"containers": [], **affinity("podAntiAffinity", required=[term])}, meta=meta)
    assert list(shapes.selecting) == ["app"]
    again = shapes.of_pod({"containers": []}, meta=meta).shape
    assert (again.labels, again.namespace) == ((("app", "web"),), "default")


def test_a_node_says_what_devices_it_has() -> None:
    obj = double.node("n")
    obj["metadata"]["annotations"] = {
        "phalanx.dev/devices": '[{"name": "GPU-1", "memory": "80Gi", "zone": "0"}]',
        "phalanx.dev/zones": '[{"name": "0", "allocatable": {"cpu": "2"}}]',
    }
    read = read_node(obj)
    assert read.devices == (Device(name="GPU-1", resource="nvidia.com/gpu", memory_bytes=80 << 30, zone="0"),)
    assert read.zones == (Zone(name="0", allocatable=(("cpu", 2000),)),)
    obj["metadata"]["annotations"] = {"phalanx.dev/devices": "two", "phalanx.dev/zones": '[{"name": 1}]'}
    assert (read_node(obj).devices, read_node(obj).zones) == ((), ())


# --- to where they run ------------------------------------------------------------------------------------------------


def hosts(*names: str) -> list[Object]:
    found = [node(name) for name in names]
    for one in found:
        one["metadata"]["labels"] = {HOST: one["metadata"]["name"]}
    return found


def apart(name: str, pods: int) -> Object:
    """Return a Job whose pods have the label app=web and an anti-affinity to such pods on a node."""
    manifest = job(name, pods)
    template = manifest["spec"]["template"]
    template["metadata"] = {"labels": {"app": "web"}}
    template["spec"] |= affinity("podAntiAffinity", required=[{"topologyKey": HOST, "labelSelector": WEB}])
    return manifest


def test_pods_that_want_to_be_apart_are_apart_and_the_third_waits() -> None:
    async def scene() -> None:
        stage = Stage(nodes=hosts("n1", "n2"))
        stage.put(apart("a", 2))
        async with stage.scheduler():
            await stage.until(lambda: len(stage.api.bound()) == 2)
            assert sorted(stage.api.bound().values()) == ["n1", "n2"]
            stage.put(apart("b", 1))
            for _ in range(8):
                await stage.turn()
            assert len(stage.api.bound()) == 2

    clockwork.run(scene())


def test_who_ran_before_anybody_selected_it_counts_too() -> None:
    async def scene() -> None:
        stage = Stage(nodes=hosts("n1", "n2"))
        theirs = pod("theirs", scheduler="default-scheduler", node="n1")
        theirs["metadata"]["labels"] = {"app": "web"}
        ours = job("plain", 1)
        ours["spec"]["template"]["metadata"] = {"labels": {"app": "web"}}
        stage.put(theirs, ours)
        async with stage.scheduler():
            await stage.until(lambda: "plain-1" in stage.api.bound())
            stage.put_node({**hosts("n3")[0]})
            stage.put(apart("a", 1))
            await stage.until(lambda: len(stage.api.bound()) == 3)
            free = {"n1", "n2", "n3"} - {"n1", stage.api.bound()["plain-1"]}
            assert stage.api.bound()["a-2"] in free

    clockwork.run(scene())


def test_who_changes_while_all_are_read_again_is_read_with_the_rest() -> None:
    """On a large cluster that takes many turns: whatever happens to a pod meanwhile, its labels count afterwards."""

    async def scene() -> None:
        stage = Stage(nodes=hosts("n1", "n2"))
        for name in ("p", "q"):
            web = pod(name)
            web["metadata"]["labels"] |= {"app": "web"}
            web["spec"] |= {"schedulerName": "default-scheduler", "nodeName": "n1"}
            stage.put(web)
        async with stage.scheduler():
            await stage.turn()
            stage.put(apart("a", 1))
            stage.caches.deliver(all=True)
            rest = stage.world.watch.workloads.read_again()
            next(rest), next(rest)  # the Job was read, and the pods are listed
            for name in ("p", "q"):
                stage.finish(name, "Running")
            stage.caches.deliver(all=True)
            for _ in rest:
                pass
            read = stage.world.watch.workloads._pods.values()
            assert [one.shape.labels for one in read if one.name in "pq"] == [(("app", "web"),)] * 2
            await stage.until(lambda: "n2" in stage.api.bound().values())

    clockwork.run(scene())


def test_only_who_carries_the_label_is_read_again() -> None:
    async def scene() -> None:
        stage = Stage(nodes=hosts("n1"))
        stage.put(*(pod(f"p{number}") for number in range(3)))
        async with stage.scheduler():
            await stage.turn()
            before = dict(stage.world.watch.workloads._pods)
            stage.put(apart("a", 1))
            stage.caches.deliver(all=True)
            for _ in stage.world.watch.workloads.read_again():
                pass
            assert all(stage.world.watch.workloads._pods[uid] is one for uid, one in before.items())

    clockwork.run(scene())
