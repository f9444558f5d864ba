"""Assign the GPUs and other named devices of a node to containers, so that no device is assigned twice."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from phalanx.embedded.node.pod.admission import GPU, requests
from phalanx.embedded.node.pod.record import PodRecord

Object = Mapping[str, Any]
DEVICES = "phalanx.dev/devices"  # the annotation that lists all devices of a node, or the devices that a pod gets
_SHARING = "gpu-fraction-container-name"  # KAI's annotation with the name of the container that uses the share of a GPU


def told_devices(pod: Object, ids: Sequence[str]) -> tuple[str, ...]:
    """Return the devices that the scheduler chose for the pod, if this node has all of them. The scheduler also chooses
    NUMA zones and cores. Their names have a slash; they are left out, because this module does not assign them."""
    text = (pod["metadata"].get("annotations") or {}).get(DEVICES, "")
    assigned = tuple(one for one in text.split(",") if one and "/" not in one)
    return assigned if set(assigned) <= set(ids) else ()


def sharing_container(pod: Object) -> str:
    """Return the name of the only container that may use the pod's shared devices; "" if all containers may use
    them."""
    return str((pod["metadata"].get("annotations") or {}).get(_SHARING, ""))


def allot_devices(
    spec: Object, ids: Sequence[str], taken: Iterable[PodRecord], assigned: Sequence[str] = (), sharing: str = ""
) -> dict[str, tuple[str, ...]] | None:
    """Choose the GPUs of a pod's containers: name of a container -> ids, lowest first. Return None if too few GPUs are
    free. Init containers use the GPUs of the pod's other containers. `assigned`: the GPUs that the scheduler chose for
    the pod, and that other pods may share. A container without a request for GPUs sees all GPUs in `assigned`.
    `sharing`: the name of the only container that sees the GPUs in `assigned`. If the name is empty or unknown, all
    containers see them."""
    requested = sum(requests(container).get(GPU, 0) for container in spec["containers"])
    if assigned and not requested:
        names = [one["name"] for one in (*spec["containers"], *(spec.get("initContainers") or ()))]
        return {name: tuple(assigned) if sharing not in names or name == sharing else () for name in names}
    if len(assigned) >= requested > 0:
        ids, taken = assigned, ()
    used = {one for record in taken for devices in record.devices.values() for one in devices}
    free = [one for one in ids if one not in used]
    found, at = dict[str, tuple[str, ...]](), 0
    for container in spec["containers"]:
        count = requests(container).get(GPU, 0)
        found[container["name"]] = tuple(free[at : at + count])
        at += count
    for container in spec.get("initContainers") or ():
        count = requests(container).get(GPU, 0)
        found[container["name"]] = tuple(free[:count])
        at = max(at, count)
    return found if at <= len(free) else None


def allot_named(spec: Object, free: Mapping[str, Sequence[str]]) -> dict[str, dict[str, tuple[str, ...]]]:
    """Choose devices for a pod's containers: name of a container -> resource -> ids of devices. Init containers use the
    devices of the pod's other containers. Raises LookupError, with the resource, the requested number and the number of
    free devices, if too few devices are free."""
    found: dict[str, dict[str, tuple[str, ...]]] = {}
    for resource, ids in free.items():
        at = 0
        for container in spec["containers"]:
            if count := requests(container).get(resource, 0):
                found.setdefault(container["name"], {})[resource] = tuple(ids[at : at + count])
                at += count
        for container in spec.get("initContainers") or ():
            if count := requests(container).get(resource, 0):
                found.setdefault(container["name"], {})[resource] = tuple(ids[:count])
                at = max(at, count)
        if at > len(ids):
            raise LookupError(resource, at, len(ids))
    return found


def device_variables(ids: Sequence[str], uuids: Mapping[str, str], *, on_gpu_node: bool) -> dict[str, str]:
    """Return the environment variables by which CUDA and NVIDIA's tools choose GPUs. On a node with GPUs, the variables
    of a container without a GPU hide all GPUs."""
    if not ids:
        return {"CUDA_VISIBLE_DEVICES": "", "NVIDIA_VISIBLE_DEVICES": "void"} if on_gpu_node else {}
    named = ",".join(uuids.get(one) or one for one in ids)
    return {"CUDA_VISIBLE_DEVICES": ",".join(ids), "NVIDIA_VISIBLE_DEVICES": named}
