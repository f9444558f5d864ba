"""Cpus of one's own: the static policy of the kubelet's cpu manager (pkg/kubelet/cm/cpumanager), on request.

A container of a Guaranteed pod (limits equal to requests, of cpu and memory, in all its containers) that asks whole
cpus is given that many for itself; everybody else runs on the others, of which one at least always stays. A container's
cpus come from one NUMA node where any has enough, the one with the fewest left; threads of one core are given together
where there are any. Which cpus a pod has is on disk with its record.
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
    """Return the CPUs that this process may use, by NUMA node, with the threads of a core next to each other."""
    nodes: dict[int, list[int]] = {}
    for cpu in sorted(os.sched_getaffinity(0), key=lambda cpu: (_core(cpu, system), cpu)):
        nodes.setdefault(_numa_node(cpu, system), []).append(cpu)
    return tuple(tuple(cpus) for _, cpus in sorted(nodes.items()))


def _numa_node(cpu: int, system: Path) -> int:
    """Return the number of the cpu's NUMA node; 0 where the kernel tells none."""
    names = (place.name.removeprefix("node") for place in (system / f"cpu{cpu}").glob("node*"))
    return next((int(name) for name in names if name.isdigit()), 0)


def _core(cpu: int, system: Path) -> int:
    """Return the first thread of a cpu's core."""
    try:
        text = (system / f"cpu{cpu}/topology/thread_siblings_list").read_text()
        return int(text.replace("-", ",").split(",")[0])
    except (OSError, ValueError):
        return cpu


def exclusive_cpus(spec: Object) -> dict[str, int]:
    """Return container -> the number of exclusive CPUs that it requests; only containers with such a request."""
    containers = [*spec["containers"], *(spec.get("initContainers") or ())]
    if not all(_is_guaranteed(one) for one in containers):
        return {}
    asked = {one["name"]: limits(one)["cpu"] for one in spec["containers"]}
    return {name: milli // 1000 for name, milli in asked.items() if milli >= 1000 and milli % 1000 == 0}


def _is_guaranteed(container: Object) -> bool:
    asked, most = requests(container), limits(container)
    return all(most.get(name, 0) > 0 and asked.get(name) == most[name] for name in ("cpu", "memory"))


def allot_cpus(spec: Object, nodes: Sequence[Cpus], taken: Iterable[int]) -> dict[str, Cpus]:
    """Return container -> its own cpus. `nodes`: the machine's cpus by NUMA node. Raises LookupError with how many are
    asked and how many are there."""
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
    """Return the CPUs as text in the kernel's list format (cpuset(7))."""
    return ",".join(map(str, sorted(cpus)))
