"""Limit the resources of containers by control groups (cgroups(7)).

The first part of this module prevents the processes of a control group from opening certain device files.

In version 1 the devices controller has a list of devices. Version 2 has no such list. Instead the kernel runs a program
of type BPF_PROG_TYPE_CGROUP_DEVICE each time that a process in the group, or in a group below it, opens or creates a
device file (bpf(2), include/uapi/linux/bpf.h). Phalanx's program compares the kind, major and minor number of a device
file with the denied devices. The kernel removes the program together with the group. The programs of all parent groups
(such as those for DeviceAllow in systemd) must allow the access too.

The second part translates the limits of a container into the files of a control group, in versions 1 and 2. The third
part creates the groups, if this process may do so.

Groups are created below the agent's own group, never at the root, because the agent's group is the delegated part of
the tree. Each of the controllers cpu, memory and pids is used in the hierarchy that has it. Limits that cannot be
enforced are listed in `problems`, with a remedy.

CPU time is divided at every level of the tree. All pods together have a CPU weight that corresponds to the node's
allocatable CPUs; they compete with the machine's other processes. Each pod, and each container, has a weight that
corresponds to its CPU request."""

from __future__ import annotations

import ctypes
import os
import stat
import struct
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import NamedTuple

_SYSCALL = {"x86_64": 321, "aarch64": 280, "riscv64": 280, "ppc64le": 361, "s390x": 351}
_PROG_LOAD, _PROG_ATTACH = 5, 8
_PROG_TYPE_CGROUP_DEVICE, _ATTACH_CGROUP_DEVICE, _ALLOW_MULTI = 15, 6, 2
_BLOCK, _CHARACTER = 1, 2  # BPF_DEVCG_DEV_BLOCK, BPF_DEVCG_DEV_CHAR
_LOAD_WORD, _AND, _JUMP_UNLESS_EQUAL, _SET, _EXIT = 0x61, 0x57, 0x55, 0xB7, 0x95
_ANSWER, _CONTEXT, _KIND, _MAJOR, _MINOR = 0, 1, 2, 3, 4  # the numbers of the program's registers


class DeviceNumber(NamedTuple):
    """The numbers by which the kernel identifies a device. `kind`: `_BLOCK` or `_CHARACTER`."""

    kind: int
    major: int
    minor: int


def withhold(place: Path, version: int, files: Iterable[str]) -> None:
    """Deny the processes of the group at `place` access to device files. The group must not contain a process yet.
    Paths that are not device files are ignored. Raises OSError."""
    devices = sorted({device for path in files if (device := _device(path)) is not None})
    if version == 1:
        for one in devices:
            kind = "b" if one.kind == _BLOCK else "c"
            (place / "devices.deny").write_text(f"{kind} {one.major}:{one.minor} rwm")
    elif devices:
        _attach(place, _program(devices))


def try_program(place: Path) -> None:
    """Attach a program that denies no device to the version 2 group at `place`, as a test. Raises OSError if this
    process may not attach programs, or if the kernel does not support them."""
    _attach(place, _program(()))


def _device(path: str) -> DeviceNumber | None:
    try:
        status = os.stat(path)
    except OSError:
        return None
    kind = {stat.S_IFCHR: _CHARACTER, stat.S_IFBLK: _BLOCK}.get(stat.S_IFMT(status.st_mode))
    return None if kind is None else DeviceNumber(kind, os.major(status.st_rdev), os.minor(status.st_rdev))


def _program(devices: Iterable[DeviceNumber]) -> bytes:
    """Return the instructions of the program, which returns 0 (deny) for these devices and 1 for all others. The kernel
    passes three words to the program. The first word has the kind in its lower half and the requested access in its
    upper half. The other two words are the major and the minor number."""
    code = [
        _instruction(_LOAD_WORD, _KIND, _CONTEXT, 0),
        _instruction(_AND, _KIND, value=0xFFFF),
        _instruction(_LOAD_WORD, _MAJOR, _CONTEXT, 4),
        _instruction(_LOAD_WORD, _MINOR, _CONTEXT, 8),
    ]
    for one in devices:
        code += [
            _instruction(_JUMP_UNLESS_EQUAL, _KIND, offset=4, value=one.kind),
            _instruction(_JUMP_UNLESS_EQUAL, _MAJOR, offset=3, value=one.major),
            _instruction(_JUMP_UNLESS_EQUAL, _MINOR, offset=2, value=one.minor),
            _instruction(_SET, _ANSWER, value=0),
            _instruction(_EXIT),
        ]
    return b"".join([*code, _instruction(_SET, _ANSWER, value=1), _instruction(_EXIT)])


def _instruction(code: int, target: int = 0, source: int = 0, offset: int = 0, value: int = 0) -> bytes:
    """Return an instruction of eight bytes (struct bpf_insn)."""
    return struct.pack("=BBhi", code, target | source << 4, offset, value)


def _attach(place: Path, program: bytes) -> None:
    """Load the program, and attach it to the group at `place`. Raises OSError."""
    code, licence = ctypes.create_string_buffer(program, len(program)), ctypes.create_string_buffer(b"GPL")
    count = len(program) // 8
    asked = struct.pack("=IIQQ", _PROG_TYPE_CGROUP_DEVICE, count, ctypes.addressof(code), ctypes.addressof(licence))
    loaded = _bpf(_PROG_LOAD, asked)
    try:
        group = os.open(place, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            _bpf(_PROG_ATTACH, struct.pack("=IIII", group, loaded, _ATTACH_CGROUP_DEVICE, _ALLOW_MULTI))
        finally:
            os.close(group)
    finally:
        os.close(loaded)


def _bpf(command: int, attributes: bytes) -> int:
    """Call bpf(2), and return its result. Raises OSError."""
    number = _SYSCALL.get(os.uname().machine)
    if number is None:
        raise OSError(f"bpf(2) is not known for the architecture {os.uname().machine}")
    buffer = ctypes.create_string_buffer(attributes.ljust(128, b"\0"), 128)
    libc = ctypes.CDLL(None, use_errno=True)
    answer = int(libc.syscall(number, command, ctypes.byref(buffer), ctypes.c_uint(len(buffer))))
    if answer < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return answer


CONTROLLERS = ("cpu", "memory", "pids")
_CPU_PERIOD_US = 100_000


@dataclass(frozen=True, slots=True, kw_only=True)
class CgroupLimits:
    """The limits of a container; None stands for no limit. `cpu_request_milli`: the CPU share relative to other groups.
    All other amounts are upper limits.

    `cpus`: the CPUs on which the container runs; empty: on all. `others_files`: device files that the container may not
    open. `huge_pages_bytes`: size of the page in KiB -> limit; other sizes are not limited. `rdma`: RDMA device ->
    counter of the kernel (hca_handle, hca_object) -> limit."""

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
    """Return the hierarchies that the contents of /proc/self/mountinfo and /proc/self/cgroup describe. The function
    does not test whether the hierarchies can be used. `besides`: optional controllers."""
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
    """Return the files to write for the limits: name of a file of the group -> content. Shares and quota are computed
    like the kubelet's (pkg/kubelet/cm/helpers_linux.go)."""
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
    """Return the limits on used and on reserved huge pages. If a program exceeds the limit on used pages, it is killed
    by SIGBUS when it touches a page. If it exceeds the limit on reserved pages, mmap(2) fails (hugetlb in the kernel's
    cgroup documentation)."""
    found: dict[str, str] = {}
    for size_kib, most_bytes in limits_bytes.items():
        name = f"hugetlb.{size_kib >> 20}GB" if size_kib >= 1 << 20 else f"hugetlb.{size_kib >> 10}MB"
        found |= {f"{name}.{word}": str(most_bytes), f"{name}.rsvd.{word}": str(most_bytes)}
    return found


def _words(device: str, most: Mapping[str, int]) -> str:
    """Return the line of rdma.max that limits a device (section rdma of the kernel's cgroup documentation)."""
    return " ".join([device, *(f"{name}={amount}" for name, amount in most.items())])


_ALWAYS = ("devices", "cpuacct")  # controllers that are also used in version 1; `cpuacct` only measures CPU time
_TOGETHER = "memory.oom.group"  # the file that makes an out-of-memory kill end the whole container, but not its pod
# The group into which the agent moves itself, because a v2 group with child groups may not contain a process.
_LEAF = "phalanx-agent"


@dataclass(frozen=True, slots=True, kw_only=True)
class ControlGroup:
    """The control groups of a container. `dirs`: their directories. `procs`: the files to which the id of a new process
    is written. `oom_files`, `peak_files`: the files with the number of out-of-memory kills, and with the peak
    memory."""

    dirs: tuple[str, ...] = ()
    procs: tuple[str, ...] = ()
    oom_files: tuple[str, ...] = ()
    peak_files: tuple[str, ...] = ()
    cpus_file: str = ""


class Cgroups:
    """Creates and removes the groups of containers. `problems`: the limits that are not enforced, with the reasons.
    `devices_refusal`: the reason why access to device files cannot be denied; "" if it can be denied."""

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
        """Return the manager of groups below this process's own group. `besides`: controllers that are used in addition
        to `CONTROLLERS`, such as cpuset."""
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
        """Return the hierarchy in which access to device files can be denied; None if there is none, with the reason in
        `devices_refusal`."""
        for hierarchy in self.usable:
            if "devices" in hierarchy.controllers:
                return hierarchy
        unified = next((hierarchy for hierarchy in self.usable if hierarchy.version == 2), None)
        if unified is None:
            self.devices_refusal = "no cgroup hierarchy for devices exists or can be written"
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
            # A group without CPUs cannot contain a process. So the group gets the CPUs of this process, and the groups
            # below it inherit them.
            for file in ("cpuset.cpus", "cpuset.mems"):
                _write(place, {file: (hierarchy.own / file).read_text()})
            _write(place, {"cgroup.clone_children": "1"})
        if hierarchy.version == 2:
            try:
                _delegate(hierarchy.own, hierarchy.controllers)
            except OSError:  # EBUSY: the group contains processes, at least this process
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
            continue  # Linux before 5.7 does not have this file
        (place / file).write_text(text)


def _delegate(place: Path, controllers: tuple[str, ...]) -> None:
    (place / "cgroup.subtree_control").write_text(" ".join(f"+{name}" for name in controllers))


def remove(dirs: tuple[str, ...]) -> None:
    """Remove the groups of a container that has ended. A group that still contains processes stays."""
    for place in dirs:
        with suppress(OSError):
            os.rmdir(place)


def kill(dirs: tuple[str, ...]) -> None:
    """Kill all processes in the groups of a container. The caller does this if the supervisor of the container was
    killed."""
    for place in dirs[:1]:
        with suppress(OSError):
            for pid in Path(place, "cgroup.procs").read_text().split():
                os.kill(int(pid), 9)
