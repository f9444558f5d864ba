"""Cpus of one's own: the static policy of the kubelet's cpu manager (pkg/kubelet/cm/cpumanager), on request.

A container of a Guaranteed pod (limits equal to requests, of cpu and memory, in all its containers) that asks whole
cpus is given that many for itself; everybody else runs on the others, of which one at least always stays. Threads of
one core are given together where there are any. Which cpus a pod has is on disk with its record.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from phalanx.embedded.node.pod.demand import limits, requests

Object = Mapping[str, Any]
Cpus = tuple[int, ...]
_SYSTEM = Path("/sys/devices/system/cpu")


def machine_cpus() -> Cpus:
    """Return the cpus that this process may use, threads of one core beside each other."""
    return tuple(sorted(os.sched_getaffinity(0), key=lambda cpu: (_core(cpu), cpu)))


def _core(cpu: int) -> int:
    """Return the first thread of a cpu's core."""
    try:
        text = (_SYSTEM / f"cpu{cpu}/topology/thread_siblings_list").read_text()
        return int(text.replace("-", ",").split(",")[0])
    except (OSError, ValueError):
        return cpu


def exclusive_cpus(spec: Object) -> dict[str, int]:
    """Return container -> how many cpus of its own it asks."""
    containers = [*spec["containers"], *(spec.get("initContainers") or ())]
    if not all(_is_guaranteed(one) for one in containers):
        return {}
    asked = {one["name"]: limits(one)["cpu"] for one in spec["containers"]}
    return {name: milli // 1000 for name, milli in asked.items() if milli >= 1000 and milli % 1000 == 0}


def _is_guaranteed(container: Object) -> bool:
    asked, most = requests(container), limits(container)
    return all(most.get(name, 0) > 0 and asked.get(name) == most[name] for name in ("cpu", "memory"))


def allot_cpus(spec: Object, cpus: Sequence[int], taken: Iterable[int]) -> dict[str, Cpus]:
    """Return container -> its own cpus. Raises LookupError with how many are asked and how many are there."""
    used = set(taken)
    free, found, at = [one for one in cpus if one not in used], dict[str, Cpus](), 0
    for name, count in exclusive_cpus(spec).items():
        found[name] = tuple(free[at : at + count])
        at += count
    if at and at >= len(free):
        raise LookupError(at, max(0, len(free) - 1))
    return found


def listed(cpus: Iterable[int]) -> str:
    """Return them as the kernel writes them (cpuset(7), list format)."""
    return ",".join(map(str, sorted(cpus)))
