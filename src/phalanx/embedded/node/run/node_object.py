"""The content of this machine's Node object: its labels, its devices, and Phalanx's conditions."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import msgspec

from phalanx.client.connection import Object
from phalanx.embedded.node.container.cgroup import CONTROLLERS, Cgroups
from phalanx.embedded.node.machine.machine import Gpu, node_info
from phalanx.embedded.node.machine.registration import Registration
from phalanx.embedded.node.machine.surroundings import Surroundings
from phalanx.embedded.node.network.fence import NetworkFence
from phalanx.embedded.node.pod.admission import GPU
from phalanx.embedded.node.pod.allotment import DEVICES

log = logging.getLogger(__name__)


def registration_of(around: Surroundings, port: int) -> Registration:
    """Return the content of the Node object. `port`: the port of the log endpoint."""
    info = node_info()
    labels = {
        "kubernetes.io/hostname": around.name,
        "kubernetes.io/arch": info["architecture"],
        "kubernetes.io/os": info["operatingSystem"],
        "beta.kubernetes.io/arch": info["architecture"],
        "beta.kubernetes.io/os": info["operatingSystem"],
        **_gpu_labels(around.gpus),
        **around.settings.labels,
    }
    return Registration(
        name=around.name,
        labels=labels,
        resources=around.allocatable,
        info=info,
        address=around.settings.address,
        port=port,
        conditions=(_limits_condition(around.cgroups), *_isolation_conditions(around)),
        annotations=_devices(around),
        pressures=around.pressures,
    )


def _devices(around: Surroundings) -> dict[str, str]:
    """Return the annotation that lists the GPUs by name, so that a scheduler can assign single GPUs and parts of
    them."""
    memory = {gpu.index: f"{gpu.memory_mib}Mi" for gpu in around.gpus if gpu.memory_mib}
    listed = [{"name": one, "resource": GPU, "memory": memory.get(one, "0")} for one in around.device_ids()]
    return {DEVICES: msgspec.json.encode(listed).decode()} if listed else {}


def _gpu_labels(gpus: tuple[Gpu, ...]) -> dict[str, str]:
    """Return the labels of NVIDIA's GPU feature discovery."""
    if not gpus:
        return {}
    first, prefix = gpus[0], GPU.partition("/")[0]
    product = first.product.replace(" ", "-")
    return {
        f"{prefix}/gpu.present": "true",
        f"{prefix}/gpu.count": str(len(gpus)),
        f"{prefix}/gpu.product": product,
        f"{prefix}/gpu.memory": str(first.memory_mib),
    }


def _limits_condition(cgroups: Cgroups) -> tuple[str, str, str, str]:
    """Return a node condition of Phalanx that shows whether the limits of containers are enforced on this machine."""
    missing = [name for name in CONTROLLERS if name not in cgroups.enforced]
    if not missing:
        return "ResourceLimitsEnforced", "True", "CgroupsWritable", "limits of cpu, memory and pids are enforced"
    text = (
        f"limits of {', '.join(missing)} are NOT enforced: {'; '.join(cgroups.problems)}. Run the agent as root, or in "
        "a cgroup that is delegated to it (systemd-run --scope -p Delegate=yes)"
    )
    return "ResourceLimitsEnforced", "False", "CgroupsNotWritable", text


def _isolation_conditions(around: Surroundings) -> Iterator[tuple[str, str, str, str]]:
    """Yield Phalanx's node conditions about the isolation of containers, and about the isolation of users on a shared
    machine."""
    isolation = around.isolation
    if isolation.root_refusal:
        text = f"this node can only run `image: host`, and no other images: {isolation.root_refusal}"
        yield "ImagesSupported", "False", "NoNamespaces", text
    elif isolation.overlay_refusal:
        text = f"overlayfs does not work ({isolation.overlay_refusal}): each container gets a copy of its image's files"
        yield "ImagesSupported", "True", "Copied", text
    else:
        yield "ImagesSupported", "True", "Overlayfs", "the root of a container consists of the files of its image"
    if refusal := around.cgroups.devices_refusal:
        text = f"containers can open all device files whose permissions allow it: {refusal}"
        yield "DeviceFilesWithheld", "False", "NoDeviceFilter", text
    if around.settings.static_cpus and "cpuset" not in around.cgroups.enforced:
        text = "no container gets exclusive cpus: this machine has no cpuset controller of cgroups that can be written"
        yield "CpusStatic", "False", "NoCpuset", text
    if around.settings.shared:
        yield _network_condition(around.fence)


def _network_condition(fence: NetworkFence | None) -> tuple[str, str, str, str]:
    if fence is not None and not fence.refusal:
        text = "only a pod's own user can connect to its TCP ports, except through a Service; UDP is not restricted"
        return "NetworkIsolated", "True", "Nftables", text
    why = "because of --local-open-network" if fence is None else fence.refusal
    text = f"pods share the machine's network: a pod can connect to the programs of every user ({why})"
    return "NetworkIsolated", "False", "SharedNetwork", text


def warn_of_limits(around: Surroundings, node: Object) -> None:
    """Log and record an Event if the limits of containers are not enforced."""
    _, enforced, reason, message = _limits_condition(around.cgroups)
    if enforced != "True":
        log.warning("node %s: %s", around.name, message)
        around.tell.tell(node, reason, message, kind="Warning")
