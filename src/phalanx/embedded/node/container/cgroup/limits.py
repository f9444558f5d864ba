"""Limits of a container, and the files of a cgroup that state them, in versions 1 and 2."""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

CONTROLLERS = ("cpu", "memory", "pids")
_CPU_PERIOD_US = 100_000


@dataclass(frozen=True, slots=True, kw_only=True)
class CgroupLimits:
    """None: no limit. `cpu_request_milli` is a share among neighbours, the others are ceilings.

    `cpus`: on which it runs; empty: on all. `others_files`: device files that it may not open. `huge_pages_bytes`: by
    size of the page in KiB; sizes that are not named are not limited. `rdma`: by RDMA device, amounts by what the
    kernel counts there (hca_handle, hca_object)."""

    cpu_request_milli: int = 0
    cpu_limit_milli: int | None = None
    memory_limit_bytes: int | None = None
    pids_limit: int | None = None
    cpus: str = ""
    others_files: tuple[str, ...] = ()
    huge_pages_bytes: Mapping[int, int] = field(default_factory=dict)
    rdma: Mapping[str, Mapping[str, int]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Hierarchy:
    """A mounted cgroup hierarchy: its version, its controllers, and this process's directory in it."""

    version: int
    controllers: tuple[str, ...]
    own: Path


def hierarchies(mountinfo: str, membership: str, besides: tuple[str, ...] = ()) -> list[Hierarchy]:
    """Return the hierarchies from the texts of /proc/self/mountinfo and /proc/self/cgroup, without testing them.
    `besides`: optional controllers."""
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
            found.append(Hierarchy(version=2, controllers=_offered(place, besides), own=place))
    return found


def _below(mount: Path, root: str, path: str) -> Path:
    inside = os.path.relpath(path, root)
    return mount if inside.startswith("..") else mount / inside


def _offered(place: Path, besides: tuple[str, ...]) -> tuple[str, ...]:
    with suppress(OSError):
        names = (place / "cgroup.controllers").read_text().split()
        return tuple(name for name in (*CONTROLLERS, *besides) if name in names)
    return ()


def settings(hierarchy: Hierarchy, limits: CgroupLimits) -> Mapping[str, str]:
    """Return file -> content. Shares and quota as the kubelet computes them (pkg/kubelet/cm/helpers_linux.go)."""
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
    if "hugetlb" in hierarchy.controllers:
        found |= _huge_pages(limits.huge_pages_bytes, "limit_in_bytes" if one else "max")
    if "rdma" in hierarchy.controllers and limits.rdma:
        found |= {"rdma.max": "".join(f"{_words(device, most)}\n" for device, most in limits.rdma.items())}
    return found


def _huge_pages(limits_bytes: Mapping[int, int], word: str) -> dict[str, str]:
    """Return the limits on used and on reserved huge pages. A program over the first limit is killed by SIGBUS when it
    touches a page. Over the second limit, mmap(2) fails (hugetlb in the kernel's cgroup documentation)."""
    found: dict[str, str] = {}
    for size_kib, most_bytes in limits_bytes.items():
        name = f"hugetlb.{size_kib >> 20}GB" if size_kib >= 1 << 20 else f"hugetlb.{size_kib >> 10}MB"
        found |= {f"{name}.{word}": str(most_bytes), f"{name}.rsvd.{word}": str(most_bytes)}
    return found


def _words(device: str, most: Mapping[str, int]) -> str:
    """Return the line of rdma.max that limits a device (section rdma of the kernel's cgroup documentation)."""
    return " ".join([device, *(f"{name}={amount}" for name, amount in most.items())])
