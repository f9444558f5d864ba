"""Limits by control groups, wherever this process may make them: v1, v2, or both side by side (cgroups(7)).

Groups are nested under the agent's own, never at the root: that is the part of the tree that was given to us. For each
of cpu, memory and pids the hierarchy is used in which that controller lives. What cannot be enforced is said once, in
`problems`, with what to do about it.

Shares of cpu are divided at every level of the tree: among the pods' groups and the machine's other processes by what
the node offers, among pods by what each asks, among its containers by what they ask.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

CONTROLLERS = ("cpu", "memory", "pids")
_ONE_ALONE = ("devices", "cpuset")  # used where version 1 has them
_CPU_PERIOD_US = 100_000
_LEAF = "phalanx-agent"  # where the agent itself goes: a v2 group with children may hold no process


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """None: no limit. `cpu_request_milli` is a share among neighbours, the others are ceilings."""

    cpu_request_milli: int = 0
    cpu_limit_milli: int | None = None
    memory_limit_bytes: int | None = None
    pids_limit: int | None = None
    cpus: str = ""  # on which it runs; empty: on all
    others_files: tuple[str, ...] = ()  # device files that it may not open


@dataclass(frozen=True, slots=True, kw_only=True)
class Hierarchy:
    """A mounted tree: its version, the controllers used in it, and our own directory there."""

    version: int
    controllers: tuple[str, ...]
    own: Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """A container's groups: its directories, the files to join by, and those that tell its oom kills and the most
    memory that it had."""

    dirs: tuple[str, ...] = ()
    procs: tuple[str, ...] = ()
    oom_files: tuple[str, ...] = ()
    peak_files: tuple[str, ...] = ()
    cpus_file: str = ""


def hierarchies(mountinfo: str, membership: str, besides: tuple[str, ...] = ("devices",)) -> list[Hierarchy]:
    """Of the texts of /proc/self/mountinfo and /proc/self/cgroup; nothing is tried yet."""
    own: dict[frozenset[str], str] = {}
    for line in membership.splitlines():
        _, controllers, path = line.split(":", 2)
        own[frozenset(controllers.split(",")) - {""}] = path
    found: list[Hierarchy] = []
    taken: set[str] = set()
    for line in mountinfo.splitlines():
        before, _, after = line.partition(" - ")
        fields, (fstype, _, options) = before.split(), [*after.split(), "", "", ""][:3]
        root, mount = fields[3], Path(fields[4])
        if fstype == "cgroup":
            for names, path in own.items():
                used = tuple(name for name in (*CONTROLLERS, *besides) if name in names and name not in taken)
                if names and used and names <= frozenset(options.split(",")):
                    taken.update(used)
                    found.append(Hierarchy(version=1, controllers=used, own=_below(mount, root, path)))
        elif fstype == "cgroup2" and frozenset() in own:
            place = _below(mount, root, own[frozenset()])
            found.append(Hierarchy(version=2, controllers=_offered(place), own=place))
    return found


def _below(mount: Path, root: str, path: str) -> Path:
    inside = os.path.relpath(path, root)
    return mount if inside.startswith("..") else mount / inside


def _offered(place: Path) -> tuple[str, ...]:
    with suppress(OSError):
        names = (place / "cgroup.controllers").read_text().split()
        return tuple(name for name in CONTROLLERS if name in names)
    return ()


class Cgroups:
    """Makes and removes groups of containers. `problems` says which limits are not enforced, and why."""

    def __init__(self, found: list[Hierarchy], name: str, cpu_milli: int = 1000) -> None:
        """`cpu_milli`: what the node offers."""
        self._name, self._whole = name, Limits(cpu_request_milli=cpu_milli)
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
        self.enforced = frozenset(enforced)

    @classmethod
    def of_this_process(cls, name: str, cpu_milli: int = 1000, *, pinned: bool = False) -> Cgroups:
        """`pinned`: containers are kept to cpus."""
        try:
            texts = Path("/proc/self/mountinfo").read_text(), Path("/proc/self/cgroup").read_text()
        except OSError:
            texts = "", ""
        found = hierarchies(*texts, besides=_ONE_ALONE if pinned else _ONE_ALONE[:1])
        return cls(found, name, cpu_milli)

    def create(self, pod: str, container: str, limits: Limits, pod_cpu_milli: int = 0) -> Group:
        """`pod_cpu_milli`: what all containers of the pod ask. Raises OSError."""
        whole = Limits(cpu_request_milli=max(pod_cpu_milli, limits.cpu_request_milli))
        dirs, procs, oom_files, peak_files, cpus_file = [], [], [], [], ""
        for hierarchy in self.usable:
            above = hierarchy.own / self._name / pod
            place = above / container
            place.mkdir(parents=True, exist_ok=True)
            if hierarchy.version == 2:
                _delegate(above.parent, hierarchy.controllers)
                _delegate(above, hierarchy.controllers)
            _write(above, settings(hierarchy, whole))
            _write(place, settings(hierarchy, limits))
            if "cpuset" in hierarchy.controllers:
                cpus_file = str(place / "cpuset.cpus")
            if "devices" in hierarchy.controllers:
                for entry in filter(None, map(_device, limits.others_files)):
                    _write(place, {"devices.deny": entry})
            dirs += [str(place), str(above)]
            procs.append(str(place / "cgroup.procs"))
            if "memory" in hierarchy.controllers:
                two = hierarchy.version == 2
                oom_files.append(str(place / ("memory.events" if two else "memory.oom_control")))
                peak_files.append(str(place / ("memory.peak" if two else "memory.max_usage_in_bytes")))
        return Group(
            dirs=tuple(dirs),
            procs=tuple(procs),
            oom_files=tuple(oom_files),
            peak_files=tuple(peak_files),
            cpus_file=cpus_file,
        )

    def close(self) -> None:
        """Take away what is empty; groups of containers that still run stay, and the next agent uses them."""
        remove(tuple(str(hierarchy.own / self._name) for hierarchy in self.usable))

    def _prepare(self, hierarchy: Hierarchy) -> None:
        place = hierarchy.own / self._name
        place.mkdir(exist_ok=True)
        if "cpuset" in hierarchy.controllers:  # a group without cpus may hold no process; those below take ours over
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
        _write(probe, settings(hierarchy, Limits(cpu_request_milli=1000)))
        probe.rmdir()
        _write(place, settings(hierarchy, self._whole))


def _write(place: Path, files: Mapping[str, str]) -> None:
    for file, text in files.items():
        (place / file).write_text(text)


def _device(path: str) -> str:
    """Return a device file as the kernel's list has it (cgroup-v1/devices.rst); "" if it is none."""
    try:
        status = os.stat(path)
    except OSError:
        return ""
    kind = {stat.S_IFCHR: "c", stat.S_IFBLK: "b"}.get(stat.S_IFMT(status.st_mode))
    return f"{kind} {os.major(status.st_rdev)}:{os.minor(status.st_rdev)} rwm" if kind else ""


def _delegate(place: Path, controllers: tuple[str, ...]) -> None:
    (place / "cgroup.subtree_control").write_text(" ".join(f"+{name}" for name in controllers))


def settings(hierarchy: Hierarchy, limits: Limits) -> Mapping[str, str]:
    """File -> content. Shares and quota as the kubelet computes them (pkg/kubelet/cm/helpers_linux.go)."""
    shares = max(2, min(limits.cpu_request_milli * 1024 // 1000, 262144))
    quota = limits.cpu_limit_milli and max(limits.cpu_limit_milli * _CPU_PERIOD_US // 1000, 1000)
    memory, pids = limits.memory_limit_bytes, limits.pids_limit
    found: dict[str, str] = {}
    one, two = hierarchy.version == 1, hierarchy.version == 2
    if "cpu" in hierarchy.controllers and one:
        found |= {"cpu.shares": str(shares), "cpu.cfs_period_us": str(_CPU_PERIOD_US)}
        found |= {"cpu.cfs_quota_us": str(quota)} if quota else {}
    if "cpu" in hierarchy.controllers and two:
        found |= {"cpu.weight": str(1 + (shares - 2) * 9999 // 262142)}
        found |= {"cpu.max": f"{quota} {_CPU_PERIOD_US}"} if quota else {}
    if "memory" in hierarchy.controllers and memory:
        found |= {"memory.limit_in_bytes": str(memory)} if one else {"memory.max": str(memory), "memory.oom.group": "1"}
    if "cpuset" in hierarchy.controllers and limits.cpus:
        found |= {"cpuset.cpus": limits.cpus}
    if "pids" in hierarchy.controllers and pids:
        found |= {"pids.max": str(pids)}
    return found


def remove(dirs: tuple[str, ...]) -> None:
    """The groups of a container that is gone; what still holds something is left."""
    for place in dirs:
        with suppress(OSError):
            os.rmdir(place)


def kill(dirs: tuple[str, ...]) -> None:
    """Everything that still runs in the groups: for a container whose supervisor was killed."""
    for place in dirs[:1]:
        with suppress(OSError):
            for pid in Path(place, "cgroup.procs").read_text().split():
                os.kill(int(pid), 9)
