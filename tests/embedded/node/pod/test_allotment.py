"""GPUs are given to one pod at a time."""

from __future__ import annotations

from phalanx.embedded.node.pod.allotment import allot_devices, device_variables, sharing_container, told_devices
from phalanx.embedded.node.pod.record import PodRecord
from tests.embedded.node.objects import asking, pod


def record(**devices: tuple[str, ...]) -> PodRecord:
    return PodRecord(uid="u", namespace="n", name="p", pod_ip="", start_time="", devices=devices)


def gpus(name: str, count: int) -> dict:
    return asking(name, **{"nvidia.com/gpu": str(count)})


def test_containers_get_devices_of_their_own() -> None:
    spec = pod(gpus("a", 1), gpus("b", 2), asking("c"))["spec"]
    assert allot_devices(spec, ["0", "1", "2", "3"], [record(x=("1",))]) == {"a": ("0",), "b": ("2", "3"), "c": ()}


def test_init_containers_use_what_the_others_will() -> None:
    spec = pod(gpus("main", 1), initContainers=[gpus("init", 2)])["spec"]
    assert allot_devices(spec, ["0", "1"], []) == {"main": ("0",), "init": ("0", "1")}


def test_too_few_devices_are_none() -> None:
    assert allot_devices(pod(gpus("a", 2))["spec"], ["0", "1"], [record(x=("0",))]) is None


def test_who_has_no_device_sees_none() -> None:
    named = device_variables(["1", "3"], {"1": "GPU-b", "3": "GPU-d"}, on_gpu_node=True)
    assert named == {"CUDA_VISIBLE_DEVICES": "1,3", "NVIDIA_VISIBLE_DEVICES": "GPU-b,GPU-d"}
    assert device_variables([], {}, on_gpu_node=True)["CUDA_VISIBLE_DEVICES"] == ""
    assert device_variables([], {}, on_gpu_node=False) == {}


def test_a_pod_gets_the_devices_that_its_scheduler_chose() -> None:
    chosen = pod(gpus("a", 1), gpus("b", 1))
    chosen["metadata"] = {"annotations": {"phalanx.dev/devices": "3,1"}}
    told = told_devices(chosen, ["0", "1", "2", "3"])
    assert allot_devices(chosen["spec"], ["0", "1", "2", "3"], [], told) == {"a": ("3",), "b": ("1",)}
    assert told_devices(chosen, ["0", "1"]) == ()
    chosen["metadata"] = {"annotations": {"phalanx.dev/devices": "zone/1,core/4,3,1"}}
    assert told_devices(chosen, ["0", "1", "2", "3"]) == ("3", "1")


def test_a_part_of_a_device_is_seen_by_every_container() -> None:
    assert allot_devices(pod(gpus("a", 0))["spec"], ["0", "1"], [record(x=("1",))], ("1",)) == {"a": ("1",)}


def test_shared_device_is_seen_by_the_named_container_alone() -> None:
    both = pod(gpus("a", 0), gpus("b", 0))
    both["metadata"]["annotations"] = {"gpu-fraction-container-name": "b"}
    assert allot_devices(both["spec"], ["0"], [], ("0",), sharing_container(both)) == {"a": (), "b": ("0",)}
    assert allot_devices(both["spec"], ["0"], [], ("0",), "unknown") == {"a": ("0",), "b": ("0",)}
