"""Measure the CPU and memory usage of pods and the machine, in the format of the kubelet's /stats/summary.

The kernel counts the processor time of a control group since its creation, so a rate needs two readings. `Meter.look`
is called every ten seconds, and stores readings of each container. So a response needs no new readings. The rate in a
response is the mean since the second newest reading, that is, over the last 10 to 20 s. For a younger container, the
rate is the mean since the container started.

Memory is the working set as in the kubelet: the used memory without the inactive file pages, which the kernel reclaims
first (cadvisor, `setMemoryStats`). A container without a control group is left out.
"""

from __future__ import annotations

import asyncio
import datetime as dt
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from phalanx.embedded.node.container.attempt import RunningAttempt

LOOK_S = 10.0
_USER_HZ = 100  # ticks per second in /proc/stat, on every Linux (man 5 proc)
_BUSY = (0, 1, 2, 5, 6, 7)  # the columns of /proc/stat that count as busy: user, nice, system, irq, softirq, steal


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """The counters of a container or of the machine at the Unix time `at_s`."""

    at_s: float
    cpu_ns: int
    working_set_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredUsage:
    """A running container. `key`: a string that identifies the present attempt of the container."""

    pod: str
    name: str
    key: str
    started_s: float
    now: Reading


class Meter:
    """Measures the usage of the running containers and of the machine at intervals."""

    def __init__(self, pods: Mapping[str, Any], node: str) -> None:
        """`pods`: uid -> pod of the agent."""
        self._pods, self._node = pods, node
        self._last = {"": read_machine()}
        self._before = self._last

    async def run(self) -> None:
        """Call `look` every ten seconds, until cancelled."""
        while True:
            await asyncio.sleep(LOOK_S)
            self.look()

    def look(self) -> None:
        """Take and keep a reading of each running container and of the machine."""
        self._before = self._last
        self._last = {"": read_machine()} | {one.key: one.now for one in self._containers()}

    def summary(self) -> dict[str, Any]:
        """Return the usage of the node, of its pods, and of each container."""
        by_pod: dict[str, list[dict[str, object]]] = {}
        for one in self._containers():
            start = Reading(at_s=one.started_s, cpu_ns=0, working_set_bytes=0)
            earlier = self._before.get(one.key) or self._last.get(one.key) or start
            by_pod.setdefault(one.pod, []).append({"name": one.name, **_stats(earlier, one.now)})
        pods = []
        for uid, containers in by_pod.items():
            record = self._pods[uid].record
            reference = {"name": record.name, "namespace": record.namespace, "uid": uid}
            pods.append({"podRef": reference, "containers": containers})
        return {"node": {"nodeName": self._node, **_stats(self._before[""], read_machine())}, "pods": pods}

    def _containers(self) -> Iterator[MeasuredUsage]:
        for uid, pod in self._pods.items():
            for name, container in pod.containers.items():
                state = container.known.state
                if isinstance(state, RunningAttempt) and (now := read_group(container.groups)) is not None:
                    key = f"{uid}/{name}/{container.known.number}"
                    yield MeasuredUsage(pod=uid, name=name, key=key, started_s=state.started_s, now=now)


def _stats(earlier: Reading, now: Reading) -> dict[str, object]:
    window_s = max(now.at_s - earlier.at_s, 1e-3)
    moment = dt.datetime.fromtimestamp(now.at_s, dt.UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
    rate = max(0, round((now.cpu_ns - earlier.cpu_ns) / window_s))
    return {
        "windowSeconds": window_s,
        "cpu": {"time": moment, "usageNanoCores": rate, "usageCoreNanoSeconds": now.cpu_ns},
        "memory": {"time": moment, "workingSetBytes": now.working_set_bytes},
    }


def read_group(dirs: Sequence[str]) -> Reading | None:
    """Return the counters of a container's control groups, of version 1 or 2; None if a counter is missing."""
    at_s = time.time()
    cpu_ns = memory_bytes = None
    for place in map(Path, dirs):
        with suppress(OSError, ValueError):
            cpu_ns = int((place / "cpuacct.usage").read_text())
        with suppress(OSError, KeyError):
            cpu_ns = _table(place / "cpu.stat")["usage_usec"] * 1000
        for used, idle in (("memory.usage_in_bytes", "total_inactive_file"), ("memory.current", "inactive_file")):
            with suppress(OSError, ValueError):
                used_bytes = int((place / used).read_text())
                memory_bytes = max(0, used_bytes - _table(place / "memory.stat").get(idle, 0))
    if cpu_ns is None or memory_bytes is None:
        return None
    return Reading(at_s=at_s, cpu_ns=cpu_ns, working_set_bytes=memory_bytes)


def read_machine(proc: Path = Path("/proc")) -> Reading:
    """Return the counters of the whole machine."""
    ticks = [int(word) for word in (proc / "stat").read_text().split("\n", 1)[0].split()[1:]]
    memory = _table(proc / "meminfo")
    used_kib = memory["MemTotal"] - memory["MemFree"] - memory.get("Inactive(file)", 0)
    cpu_ns = sum(ticks[place] for place in _BUSY if place < len(ticks)) * 1_000_000_000 // _USER_HZ
    return Reading(at_s=time.time(), cpu_ns=cpu_ns, working_set_bytes=max(0, used_kib) * 1024)


def _table(path: Path) -> dict[str, int]:
    """Parse a file with a name and a value in each line, and return name -> value. A colon and a unit are ignored.
    Raises OSError."""
    rows = (line.replace(":", " ").split() for line in path.read_text().splitlines())
    return {row[0]: int(row[1]) for row in rows if len(row) > 1 and row[1].isdigit()}
