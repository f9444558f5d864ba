"""Measure the disk usage of each pod, and evict pods that exceed their limit or fill the disk.

The usage of a pod is the size of its emptyDir volumes on the disk, its private /tmp, and its logs. The limit of a pod
is the sum of its containers' `ephemeral-storage` limits; an emptyDir may also have a `sizeLimit`. When the disk is
nearly full, the node reports DiskPressure (so no new pods are scheduled to it) and evicts one pod after another until
enough space is free. Pods that exceed their request are evicted first. Among these, pods with a lower priority come
first, and among equal priorities the pod that exceeds its request most.

A separate process, du(1), reads the files, so that a pod with millions of files does not delay the agent's work for
other pods. Source of the messages and of the order of evictions: pkg/kubelet/eviction (eviction_manager.go,
helpers.go).
"""

from __future__ import annotations

import asyncio
import logging
import os
import shutil
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from phalanx.client.quantity import amount
from phalanx.embedded.node.agent.pod.agent_pod import AgentPod
from phalanx.embedded.node.machine.surroundings import VOLUMES, Surroundings
from phalanx.embedded.node.pod.admission import limits, requests

log = logging.getLogger(__name__)

Object = Mapping[str, Any]
DISK_PRESSURE = "DiskPressure"
STORAGE = "ephemeral-storage"
_DU_S = 60.0  # the maximum time for measuring the files of one pod
# the disk is nearly full if less than 1 GiB and less than 1/20 of the disk are free
_RESERVE_BYTES, _RESERVE_PART = 1 << 30, 20
_LEAST_BYTES = 1 << 20  # a pod that has written fewer bytes is not evicted


@dataclass(frozen=True, slots=True, kw_only=True)
class Scratch:
    """The number of bytes that a pod has written. `volumes`: name of an emptyDir -> the number of bytes in it."""

    total: int = 0
    volumes: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class EvictionCandidate:
    """A pod that could be evicted, with its disk usage."""

    pod: Object
    scratch: Scratch

    @property
    def rank(self) -> tuple[bool, int, int]:
        """Return the sort key of evictions: the candidate with the smallest key is evicted first."""
        excess = self.scratch.total - sum(requests(one).get(STORAGE, 0) for one in self.pod["spec"]["containers"])
        return excess <= 0, int(self.pod["spec"].get("priority") or 0), -excess


class DiskGuard:
    """Measures the disk of one node, and evicts pods that use too much of it. `pods`: the pods of the node, by uid."""

    def __init__(self, around: Surroundings, pods: Mapping[str, AgentPod]) -> None:
        self._around, self._pods = around, pods

    async def look(self, report: Callable[[], Awaitable[None]]) -> None:
        """Measure the disk once, and evict pods if necessary. `report`: a function that writes the pressure conditions
        of the node into its status."""
        settings, pressures = self._around.settings, self._around.pressures
        free_bytes, low = await asyncio.to_thread(room, settings.pods_dir, settings.disk_reserve_bytes)
        pressures.add(DISK_PRESSURE) if low else pressures.discard(DISK_PRESSURE)
        await report()
        await asyncio.to_thread(self._around.kept_logs.prune, time.time(), low=low)
        candidates = [
            EvictionCandidate(pod=one.pod, scratch=await self._scratch(one))
            for one in list(self._pods.values())
            if one.holds and (low or is_limited(one.pod))
        ]
        for candidate in candidates:
            if why := over_limit(candidate.pod, candidate.scratch):
                self._evict(candidate, why, disrupted=False)
        if low and (first := first_to_go(candidates)) is not None:
            self._evict(first, low_disk_message(first, free_bytes), disrupted=True)

    async def _scratch(self, pod: AgentPod) -> Scratch:
        folder = self._around.pod_dir(pod.record.uid)
        return await measure(folder, folder / VOLUMES, pod.pod)

    def _evict(self, candidate: EvictionCandidate, why: str, *, disrupted: bool) -> None:
        if (pod := self._pods.get(candidate.pod["metadata"]["uid"])) is not None:
            log.info("pod %s/%s evicted: %s", pod.record.namespace, pod.record.name, why)
            pod.evict(why, disrupted=disrupted)


def is_limited(pod: Object) -> bool:
    """Return True if the pod has a limit on its disk usage."""
    return bool(_limit(pod) or _volume_limits(pod))


def over_limit(pod: Object, scratch: Scratch) -> str:
    """Return the kubelet's message, with the amounts, if the pod exceeds a limit and must be evicted; "" otherwise."""
    for name, most in _volume_limits(pod).items():
        if scratch.volumes.get(name, 0) > amount(STORAGE, most):
            return (
                f'Usage of EmptyDir volume "{name}" exceeds the limit "{most}". It had {_shown(scratch.volumes[name])}.'
            )
    limit = _limit(pod)
    if limit and scratch.total > limit:
        return (
            f"Pod ephemeral local storage usage exceeds the total limit of containers {_shown(limit)}. "
            f"It had {_shown(scratch.total)}."
        )
    return ""


def first_to_go(candidates: Sequence[EvictionCandidate]) -> EvictionCandidate | None:
    """Return the pod to evict first when the disk is low; None if no pod has written enough."""
    worth = [one for one in candidates if one.scratch.total >= _LEAST_BYTES]
    return min(worth, key=lambda one: one.rank, default=None)


def low_disk_message(candidate: EvictionCandidate, free_bytes: int) -> str:
    """Return the message for the evicted pod."""
    return (
        f"The node was low on resource: {STORAGE}. {_shown(free_bytes)} of the disk were free; the pod had written "
        f"{_shown(candidate.scratch.total)}."
    )


def room(folder: Path, reserve_bytes: int | None) -> tuple[int, bool]:
    """Return the number of free bytes on the folder's disk, and True if it is less than the reserve. Raises OSError."""
    found = shutil.disk_usage(folder)
    reserve = min(_RESERVE_BYTES, found.total // _RESERVE_PART) if reserve_bytes is None else reserve_bytes
    return found.free, found.free < reserve


async def measure(folder: Path, volumes: Path, pod: Object) -> Scratch:
    """Return the disk usage of a pod's folder. If the measurement takes too long, return the bytes that were counted
    until then."""
    named = {one["name"]: volumes / one["name"] for one in pod["spec"].get("volumes") or () if "emptyDir" in one}
    places = {name: path.resolve() for name, path in named.items() if path.exists()}
    sizes = await _du([folder, *places.values()])
    on_disk = {name: sizes.get(str(path), 0) for name, path in places.items()}
    return Scratch(total=sizes.get(str(folder), 0), volumes=on_disk)


async def _du(paths: Sequence[Path]) -> dict[str, int]:
    """Return the number of bytes below each path. A file that is below several of the paths counts for each of them."""
    process = await asyncio.create_subprocess_exec(
        *("du", "--summarize", "--one-file-system", "--count-links", "--block-size=1", "--"),
        *map(str, paths),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
        env={"PATH": os.environ.get("PATH", os.defpath), "LC_ALL": "C"},
    )
    try:
        async with asyncio.timeout(_DU_S):
            output, _ = await process.communicate()
    except TimeoutError:
        return {}
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    lines = (line.split("\t", 1) for line in output.decode(errors="replace").splitlines())
    return {line[1]: int(line[0]) for line in lines if len(line) == 2 and line[0].isdigit()}


def _limit(pod: Object) -> int:
    return sum(limits(one).get(STORAGE, 0) for one in pod["spec"]["containers"])


def _volume_limits(pod: Object) -> dict[str, str]:
    found = {one["name"]: (one.get("emptyDir") or {}).get("sizeLimit") for one in pod["spec"].get("volumes") or ()}
    return {name: str(most) for name, most in found.items() if most}


def _shown(number: int) -> str:
    return f"{number / 2**30:.1f}Gi" if number >= 2**30 else f"{number / 2**20:.1f}Mi"
