"""Assign exclusive CPUs to containers, by the static policy of the kubelet's CPU manager (pkg/kubelet/cm/cpumanager),
if the settings enable it.

A pod is Guaranteed if the limits of cpu and memory equal the requests in all its containers. If a container of such a
pod requests a whole number of CPUs, it gets this number of exclusive CPUs. All other containers run on the remaining
CPUs; at least one CPU always remains. If there are NUMA nodes with enough free CPUs, all CPUs of the container come
from one of them: the NUMA node with the fewest free CPUs. The threads of one core are assigned together where possible.
The record of a pod on disk contains its CPUs.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from phalanx.embedded.node.pod.admission import limits, requests

Object = Mapping[str, Any]
Cpus = tuple[int, ...]
_SYSTEM = Path("/sys/devices/system/cpu")


def machine_cpus(system: Path = _SYSTEM) -> tuple[Cpus, ...]:
    """Return the CPUs that this process may use: one tuple for each NUMA node, in which the threads of a core are
    adjacent."""
    nodes: dict[int, list[int]] = {}
    for cpu in sorted(os.sched_getaffinity(0), key=lambda cpu: (_core(cpu, system), cpu)):
        nodes.setdefault(_numa_node(cpu, system), []).append(cpu)
    return tuple(tuple(cpus) for _, cpus in sorted(nodes.items()))


def _numa_node(cpu: int, system: Path) -> int:
    """Return the number of the CPU's NUMA node; 0 if the kernel reports none."""
    names = (place.name.removeprefix("node") for place in (system / f"cpu{cpu}").glob("node*"))
    return next((int(name) for name in names if name.isdigit()), 0)


def _core(cpu: int, system: Path) -> int:
    """Return the number of the first thread of the CPU's core."""
    try:
        text = (system / f"cpu{cpu}/topology/thread_siblings_list").read_text()
        return int(text.replace("-", ",").split(",")[0])
    except (OSError, ValueError):
        return cpu


def exclusive_cpus(spec: Object) -> dict[str, int]:
    """Return the requests for exclusive CPUs: name of a container -> the number of CPUs. Containers without such a
    request are left out."""
    containers = [*spec["containers"], *(spec.get("initContainers") or ())]
    if not all(_is_guaranteed(one) for one in containers):
        return {}
    asked = {one["name"]: limits(one)["cpu"] for one in spec["containers"]}
    return {name: milli // 1000 for name, milli in asked.items() if milli >= 1000 and milli % 1000 == 0}


def _is_guaranteed(container: Object) -> bool:
    asked, most = requests(container), limits(container)
    return all(most.get(name, 0) > 0 and asked.get(name) == most[name] for name in ("cpu", "memory"))


def allot_cpus(spec: Object, nodes: Sequence[Cpus], taken: Iterable[int]) -> dict[str, Cpus]:
    """Choose the exclusive CPUs of a pod: name of a container -> its CPUs. `nodes`: the machine's CPUs by NUMA node.
    `taken`: the CPUs that other pods have. Raises LookupError, with the numbers of requested and of free CPUs, if too
    few CPUs are free."""
    used, found = set(taken), dict[str, Cpus]()
    asked, left = exclusive_cpus(spec), sum(cpu not in used for node in nodes for cpu in node)
    if asked and sum(asked.values()) >= left:
        raise LookupError(sum(asked.values()), max(0, left - 1))
    for name, count in asked.items():
        free = sorted(([cpu for cpu in node if cpu not in used] for node in nodes), key=len)
        whole = next((cpus for cpus in free if len(cpus) >= count), [cpu for cpus in reversed(free) for cpu in cpus])
        found[name] = tuple(whole[:count])
        used.update(found[name])
    return found


def listed(cpus: Iterable[int]) -> str:
    """Return the CPUs in the kernel's list format (cpuset(7))."""
    return ",".join(map(str, sorted(cpus)))
