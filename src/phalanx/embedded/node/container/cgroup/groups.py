"""Resource limits by control groups, if this process may create them: v1, v2, or both (cgroups(7)).

Groups are created below the agent's own group, never at the root, because the agent's group is the delegated part of
the tree. For each of cpu, memory and pids the hierarchy with that controller is used. Limits that cannot be enforced
are listed in `problems`, with a remedy.

CPU shares are divided at every level of the tree: between all pods and the machine's other processes by the node's
allocatable CPUs, between pods by their requests, and between containers by their requests.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from phalanx.embedded.node.container.cgroup.device_filter import try_program, withhold
from phalanx.embedded.node.container.cgroup.limits import CONTROLLERS, CgroupLimits, Hierarchy, hierarchies, settings

_ALWAYS = ("devices", "cpuacct")  # used with version 1; `cpuacct` only measures
_TOGETHER = "memory.oom.group"  # an out-of-memory kill ends the whole container, not its pod
# The group into which the agent moves itself, because a v2 group with child groups may not contain a process.
_LEAF = "phalanx-agent"


@dataclass(frozen=True, slots=True, kw_only=True)
class ControlGroup:
    """The groups of a container: their directories; the files into which a process id is written; and the files that
    contain the number of out-of-memory kills and the peak memory."""

    dirs: tuple[str, ...] = ()
    procs: tuple[str, ...] = ()
    oom_files: tuple[str, ...] = ()
    peak_files: tuple[str, ...] = ()
    cpus_file: str = ""


class Cgroups:
    """Makes and removes groups of containers. `problems` says which limits are not enforced, and why;
    `devices_refusal` why device files cannot be withheld, empty where they can."""

    def __init__(self, found: list[Hierarchy], name: str, cpu_milli: int = 1000) -> None:
        """`cpu_milli`: the CPU time that the node offers, in thousandths of a CPU."""
        self._name, self._whole = name, CgroupLimits(cpu_request_milli=cpu_milli)
        self.usable: list[Hierarchy] = []
        self.problems: list[str] = []
        for hierarchy in found:
            if not hierarchy.controllers:
                continue
            try:
                self._prepare(hierarchy)
                self.usable.append(hierarchy)
            except OSError as error:
                what = ", ".join(hierarchy.controllers)
                self.problems.append(f"{what}: {hierarchy.own}: {error.strerror}")
        enforced = {name for hierarchy in self.usable for name in hierarchy.controllers}
        known = {name for hierarchy in found for name in hierarchy.controllers}
        self.problems += [f"{name}: no cgroup hierarchy offers it" for name in CONTROLLERS if name not in known]
        self.devices_refusal = ""
        self._files = self._withholding()
        self.enforced = frozenset(enforced | ({"devices"} if self._files is not None else set()))

    @classmethod
    def of_this_process(cls, name: str, cpu_milli: int = 1000, besides: tuple[str, ...] = ()) -> Cgroups:
        """Return the groups below this process's own. `besides`: controllers that are used beside `CONTROLLERS`, such
        as cpuset."""
        try:
            texts = Path("/proc/self/mountinfo").read_text(), Path("/proc/self/cgroup").read_text()
        except OSError:
            texts = "", ""
        return cls(hierarchies(*texts, besides=(*_ALWAYS, *besides)), name, cpu_milli)

    def create(
        self, pod: str, container: str, limits: CgroupLimits, of_pod: CgroupLimits | None = None
    ) -> ControlGroup:
        """Create the group of a container. `of_pod`: the requests and limits of the whole pod. Raises OSError."""
        whole = of_pod or CgroupLimits()
        whole = replace(whole, cpu_request_milli=max(whole.cpu_request_milli, limits.cpu_request_milli))
        dirs, procs, oom_files, peak_files, cpus_file = [], [], [], [], ""
        for hierarchy in self.usable:
            above = hierarchy.own / self._name / pod
            place = above / container
            place.mkdir(parents=True, exist_ok=True)
            if hierarchy.version == 2:
                _delegate(above.parent, hierarchy.controllers)
                _delegate(above, hierarchy.controllers)
            of_all = settings(hierarchy, whole)
            _write(above, {file: text for file, text in of_all.items() if file != _TOGETHER})
            _write(place, settings(hierarchy, limits))
            if "cpuset" in hierarchy.controllers:
                cpus_file = str(place / "cpuset.cpus")
            if hierarchy is self._files:
                withhold(place, hierarchy.version, limits.others_files)
            dirs += [str(place), str(above)]
            procs.append(str(place / "cgroup.procs"))
            if "memory" in hierarchy.controllers:
                two = hierarchy.version == 2
                oom_files.append(str(place / ("memory.events" if two else "memory.oom_control")))
                peak_files.append(str(place / ("memory.peak" if two else "memory.max_usage_in_bytes")))
        return ControlGroup(
            dirs=tuple(dirs),
            procs=tuple(procs),
            oom_files=tuple(oom_files),
            peak_files=tuple(peak_files),
            cpus_file=cpus_file,
        )

    def close(self) -> None:
        """Remove the group that contains all containers, if it is empty. The groups of running containers stay, and the
        next agent uses them."""
        remove(tuple(str(hierarchy.own / self._name) for hierarchy in self.usable))

    def _withholding(self) -> Hierarchy | None:
        """Return the tree in which device files can be withheld from containers; None: `devices_refusal` says why."""
        for hierarchy in self.usable:
            if "devices" in hierarchy.controllers:
                return hierarchy
        unified = next((hierarchy for hierarchy in self.usable if hierarchy.version == 2), None)
        if unified is None:
            self.devices_refusal = "no cgroup hierarchy for devices can be had or written"
            return None
        probe = unified.own / self._name / "probe"
        try:
            probe.mkdir(exist_ok=True)
            try_program(probe)
            return unified
        except OSError as error:
            self.devices_refusal = f"{unified.own}: a BPF program cannot be attached: {error.strerror or error}"
        finally:
            remove((str(probe),))
        return None

    def _prepare(self, hierarchy: Hierarchy) -> None:
        place = hierarchy.own / self._name
        place.mkdir(exist_ok=True)
        if "cpuset" in hierarchy.controllers and hierarchy.version == 1:
            # A group without cpus may hold no process; those below take ours over.
            for file in ("cpuset.cpus", "cpuset.mems"):
                _write(place, {file: (hierarchy.own / file).read_text()})
            _write(place, {"cgroup.clone_children": "1"})
        if hierarchy.version == 2:
            try:
                _delegate(hierarchy.own, hierarchy.controllers)
            except OSError:  # EBUSY: processes sit in it, at least this one
                leaf = hierarchy.own / _LEAF
                leaf.mkdir(exist_ok=True)
                (leaf / "cgroup.procs").write_text("0")
                try:
                    _delegate(hierarchy.own, hierarchy.controllers)
                except OSError:
                    (hierarchy.own / "cgroup.procs").write_text("0")
                    raise
            _delegate(place, hierarchy.controllers)
        probe = place / "probe"
        probe.mkdir(exist_ok=True)
        _write(probe, settings(hierarchy, CgroupLimits(cpu_request_milli=1000)))
        probe.rmdir()
        _write(place, settings(hierarchy, self._whole))


def _write(place: Path, files: Mapping[str, str]) -> None:
    for file, text in files.items():
        if ".rsvd." in file and not (place / file).exists():
            continue  # before Linux 5.7
        (place / file).write_text(text)


def _delegate(place: Path, controllers: tuple[str, ...]) -> None:
    (place / "cgroup.subtree_control").write_text(" ".join(f"+{name}" for name in controllers))


def remove(dirs: tuple[str, ...]) -> None:
    """Remove the groups of a container that has ended. A group that still contains processes stays."""
    for place in dirs:
        with suppress(OSError):
            os.rmdir(place)


def kill(dirs: tuple[str, ...]) -> None:
    """Kill all processes in the groups of a container, in case its supervisor was killed."""
    for place in dirs[:1]:
        with suppress(OSError):
            for pid in Path(place, "cgroup.procs").read_text().split():
                os.kill(int(pid), 9)
