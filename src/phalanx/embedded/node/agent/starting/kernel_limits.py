"""Compute the limits that the kernel enforces on a container, and on a whole pod."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from phalanx.client.connection import Object
from phalanx.client.quantity import amount
from phalanx.embedded.node.agent.starting.container_start import ContainerStart
from phalanx.embedded.node.container.cgroup import CgroupLimits
from phalanx.embedded.node.machine.cpus import listed
from phalanx.embedded.node.machine.machine import HUGE_PAGES
from phalanx.embedded.node.machine.rdma import rdma_limits
from phalanx.embedded.node.machine.surroundings import Surroundings
from phalanx.embedded.node.pod.admission import is_ephemeral, is_sidecar, limits, requests

_PIDS = 8192  # the maximum number of processes of a container, so that a fork bomb harms only its own user


def container_limits(start: ContainerStart, others_files: tuple[str, ...]) -> CgroupLimits:
    """Return the limits that the kernel enforces on the container. An ephemeral container has no memory limit of
    its own: it shares the limit of its pod."""
    around, name = start.around, start.name
    found = resource_limits(around, requests(start.spec), limits(start.spec))
    return replace(
        found,
        memory_limit_bytes=None if is_ephemeral(start.pod, name) else found.memory_limit_bytes,
        pids_limit=_PIDS if start.owner is not None else None,
        cpus=listed(start.record.cpus.get(name) or around.shared_cpus),
        others_files=others_files,
    )


def resource_limits(around: Surroundings, ask: Mapping[str, int], most: Mapping[str, int]) -> CgroupLimits:
    """Return the kernel's limits for a container with the requests `ask` and the limits `most`. The caller adds the
    CPUs, the device files and the number of processes."""
    default, offered = default_memory_bytes(around), around.settings.rdma
    return CgroupLimits(
        cpu_request_milli=ask.get("cpu", 0),
        cpu_limit_milli=most.get("cpu"),
        memory_limit_bytes=most.get("memory") or (max(default, ask.get("memory", 0)) if default else None),
        huge_pages_bytes={
            size_kib: most.get(name, 0)
            for name, size_kib in HUGE_PAGES.items()
            if around.allocatable.get(name, "0") != "0"
        },
        rdma=rdma_limits(offered, around.rdma_cards, most),
    )


def pod_limits(around: Surroundings, spec: Object) -> CgroupLimits:
    """Return the limits of a whole pod: the largest sum over the containers that run at the same time; None for a
    resource if a container has no limit. An init container runs at the same time as the sidecars before it in the
    list."""
    init = spec.get("initContainers") or ()
    together = [*spec["containers"], *(one for one in init if is_sidecar(one))]
    amounts = {id(one): resource_limits(around, requests(one), limits(one)) for one in (*together, *init)}

    def most(amount: Callable[[CgroupLimits], int | None]) -> int | None:
        each = {one: amount(found) for one, found in amounts.items()}
        if any(value is None for value in each.values()):
            return None
        peak = sidecars = 0
        for one in init:
            own = each[id(one)] or 0
            peak = max(peak, sidecars + own)
            sidecars += own if is_sidecar(one) else 0
        return max(sum(each[id(one)] or 0 for one in together), peak)

    return CgroupLimits(
        cpu_limit_milli=most(lambda one: one.cpu_limit_milli),
        memory_limit_bytes=most(lambda one: one.memory_limit_bytes),
    )


def default_memory_bytes(around: Surroundings) -> int:
    """Return the memory limit for containers that set none; 0 for no limit. On a shared machine it is the machine's
    memory per CPU, so that such a container cannot use up the memory of other users."""
    said = around.settings.default_memory_bytes
    if said is not None:
        return said
    cores = max(1, amount("cpu", around.allocatable["cpu"]) // 1000)
    return amount("memory", around.allocatable["memory"]) // cores if around.settings.shared else 0
