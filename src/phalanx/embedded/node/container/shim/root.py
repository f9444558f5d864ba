"""Build the root of a container with an image: the layers of the image, and above them a directory for the container's
writes (overlayfs).

Mounts from the machine (volumes, device files, /sys) are first copied, while the machine's root is still mounted. Then
the image's tree becomes the root, and the machine's root is unmounted. The copies are attached to their mount points
last, so that links in the image cannot lead to files of the machine. As root, this module creates mount points only in
the image's own tree. A mount point inside a volume, which may be a directory of the machine, is created with the rights
of the confined program's user. `mount_point` uses openat2(2) to find out whether a mount point is in the image's tree
or in a volume.

A container sees the parts of the machine that OCI runtime-spec, config-linux.md, lists: /proc of its own processes,
/sys read-only, the usual files of /dev, and its own devices. Files of /proc and /sys about the machine are hidden or
read-only, because root in a container is the machine's root with fewer capabilities.
"""

from __future__ import annotations

import errno
import os
import stat
from contextlib import suppress
from functools import partial

from phalanx.embedded.node.container.shim.privileges import rights_of_user
from phalanx.embedded.node.container.shim.record import ShimMount, ShimRoot, ShimSpec
from phalanx.embedded.node.container.shim.syscalls import (
    BENEATH,
    IN_ROOT,
    MNT_DETACH,
    MS_BIND,
    MS_NODEV,
    MS_NOEXEC,
    MS_NOSUID,
    MS_RDONLY,
    MS_REC,
    MS_REMOUNT,
    MS_SLAVE,
    NO_MAGICLINKS,
    NO_XDEV,
    SyscallRefused,
    attach,
    call,
    copied_tree,
    libc,
    make_read_only,
    make_resolved,
    mount,
    pivot_root_to_here,
    step,
)

_DEVICES = ("null", "zero", "full", "random", "urandom", "tty")
_LINKS = {"fd": "/proc/self/fd", "stdin": "/proc/self/fd/0", "stdout": "/proc/self/fd/1", "stderr": "/proc/self/fd/2"}
_HIDDEN = (
    *("/proc/acpi", "/proc/asound", "/proc/kcore", "/proc/keys", "/proc/latency_stats", "/proc/sched_debug"),
    *("/proc/scsi", "/proc/timer_list", "/proc/timer_stats", "/sys/devices/virtual/powercap", "/sys/firmware"),
)
_PROC = MS_NOSUID | MS_NODEV | MS_NOEXEC
_READ_ONLY = ("/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger")


def make_root(spec: ShimSpec, root: ShimRoot, volumes: list[tuple[int, ShimMount]]) -> None:
    """Build the container's root, and make it the root of this process. `volumes`: for each mount, the open file
    descriptor of its source, and its settings. Raises SyscallRefused."""
    user_namespace = bool(spec.get("user_namespace"))
    mount("separating mounts", "none", "/", None, MS_REC | MS_SLAVE)
    copies = [(_copied(handle, one), one["target"]) for handle, one in volumes]
    devices = [(_copied_path(path), path) for path in (f"/dev/{name}" for name in _DEVICES)]
    devices += [(_copied_path(source), target) for source, target in root["devices"]]
    system = _copied_path("/sys")
    make_read_only("making /sys read-only", system)
    processes = _processes(root["stage"])
    _mount_layers(root, user_namespace=user_namespace)
    os.chdir(root["stage"])
    pivot_root_to_here()
    _make_proc(processes, hide=not user_namespace)
    _make_dev(devices, user_namespace=user_namespace)
    _attach("/sys", system, _folder("/sys"))
    if not user_namespace:
        _hide(spec)
    own = (("/dev/", _folder("/dev"), BENEATH), ("/", _folder("/"), IN_ROOT))
    for tree, target in copies:
        point = mount_point(target, spec, file=not stat.S_ISDIR(os.fstat(tree).st_mode), own=own)
        _attach(target, tree, point)
    if root["read_only"]:
        mount("making the root read-only", "none", "/", None, MS_BIND | MS_REMOUNT | MS_RDONLY | MS_NODEV)


def _copied(handle: int, one: ShimMount) -> int:
    tree = copied_tree(f"taking {one['source']}", handle)
    if one["read_only"]:
        make_read_only(f"making {one['target']} read-only", tree)
    return tree


def _copied_path(path: str) -> int:
    handle = step(f"opening {path}", lambda: os.open(path, os.O_PATH | os.O_CLOEXEC))
    tree = copied_tree(f"taking {path}", handle)
    os.close(handle)
    return tree


def _processes(stage: str) -> int:
    """Mount a new /proc for the container, and return a file descriptor of this mount. In a user namespace, the kernel
    allows this mount only if the machine's /proc is fully visible."""
    mount("mounting /proc", "proc", stage, "proc", _PROC)
    tree = _copied_path(stage)
    call("mounting /proc", libc.umount2(os.fsencode(stage), MNT_DETACH))
    return tree


def _mount_layers(root: ShimRoot, *, user_namespace: bool) -> None:
    """Mount the layers of the image over each other. The layers are passed to the kernel as file descriptors, because
    their paths may be too long or contain a colon."""
    if not root["layers"]:  # the stage already contains all files
        mount("mounting the root", root["stage"], root["stage"], None, MS_BIND | MS_REC)
        mount("mounting the root", "none", root["stage"], None, MS_BIND | MS_REMOUNT | MS_NODEV)
        return
    names = []
    for path in (*root["layers"], root["upper"], root["work"]):
        handle = step(f"opening {path}", partial(os.open, path, os.O_PATH | os.O_CLOEXEC | os.O_DIRECTORY))
        names.append(f"/proc/self/fd/{handle}")
    options = f"lowerdir={':'.join(names[:-2])},upperdir={names[-2]},workdir={names[-1]}"
    mount("mounting the image's layers", "overlay", root["stage"], "overlay", MS_NODEV,
          options + (",userxattr" if user_namespace else ""))  # fmt: skip


def _folder(path: str) -> int:
    """Return a file descriptor of a directory of the image, and create the directory if it is missing. A link at this
    path is refused."""
    with suppress(FileExistsError):
        os.mkdir(path, 0o755)
    if not stat.S_ISDIR(os.lstat(path).st_mode):
        raise SyscallRefused(f"the image's {path} is not a directory")
    return os.open(path, os.O_PATH | os.O_CLOEXEC | os.O_NOFOLLOW)


def _attach(target: str, tree: int, point: int) -> None:
    attach(f"mounting {target}", tree, point)
    os.close(tree)
    os.close(point)


def mount_point(target: str, spec: ShimSpec, *, file: bool = False, own: tuple[tuple[str, int, int], ...] = ()) -> int:
    """Return a file descriptor of the directory (or, with `file`, the file) `target` of the container, and create the
    target if it is missing. It is created as root in the container's own tree, and with the user's rights in any other
    tree.
    `own`: the directories of the container's own tree, with their file descriptors and the flags for following links.
    Raises SyscallRefused."""
    what = f"making the mount point {target}"
    target = f"/{target.lstrip('/')}"
    for place, folder, resolve in own:
        if target.startswith(place):
            with suppress(_Elsewhere):
                own_path = target.removeprefix(place)
                return step(what, partial(_own_point, folder, own_path, resolve, file=file))
            break
    with rights_of_user(spec):
        root = os.open("/", os.O_PATH | os.O_CLOEXEC)
        try:
            return step(what, lambda: make_resolved(root, target, IN_ROOT | NO_MAGICLINKS, file=file))
        finally:
            os.close(root)


class _Elsewhere(Exception):
    """Raised if the path leads into another mount."""


def _own_point(folder: int, path: str, resolve: int, *, file: bool) -> int:
    """Return a file descriptor of a path in the container's own tree, and create the path if it is missing. Raises
    _Elsewhere, OSError."""
    try:
        return make_resolved(folder, path, resolve | NO_XDEV | NO_MAGICLINKS, file=file)
    except OSError as error:
        if error.errno == errno.EXDEV:
            raise _Elsewhere from None
        raise


def make_working_directory(spec: ShimSpec) -> None:
    """Create the program's working directory in the container's tree if it is missing. Raises SyscallRefused."""
    os.close(mount_point(spec["cwd"], spec, own=(("/", _folder("/"), IN_ROOT),)))


def _make_proc(processes: int, *, hide: bool) -> None:
    _attach("/proc", processes, _folder("/proc"))
    for path in _READ_ONLY if hide else ():
        if os.path.exists(path):
            mount(f"mounting {path}", path, path, None, MS_BIND | MS_REC)
            mount(f"making {path} read-only", "none", path, None, MS_BIND | MS_REMOUNT | MS_RDONLY | _PROC)


def _make_dev(devices: list[tuple[int, str]], *, user_namespace: bool) -> None:
    os.close(_folder("/dev"))
    mount("mounting /dev", "tmpfs", "/dev", "tmpfs", MS_NOSUID, "mode=755,size=65536k")
    for tree, path in devices:  # volumes are mounted later
        _attach(path, tree, mount_point(path, {}, file=not stat.S_ISDIR(os.fstat(tree).st_mode)))
    for name, target in _LINKS.items():
        os.symlink(target, f"/dev/{name}")
    for name in ("shm", "pts"):
        os.mkdir(f"/dev/{name}")
    flags = MS_NOSUID | MS_NODEV
    mount("mounting /dev/shm", "tmpfs", "/dev/shm", "tmpfs", flags | MS_NOEXEC, "mode=1777")  # noqa: S108 - its own
    terminals = "newinstance,ptmxmode=0666,mode=0620" + ("" if user_namespace else ",gid=5")
    mount("mounting /dev/pts", "devpts", "/dev/pts", "devpts", MS_NOSUID | MS_NOEXEC, terminals)
    os.symlink("pts/ptmx", "/dev/ptmx")


def _hide(spec: ShimSpec) -> None:
    for path in _HIDDEN:
        if os.path.isdir(path):
            mount(f"hiding {path}", "tmpfs", path, "tmpfs", MS_RDONLY, "size=0")
        elif os.path.exists(path):
            mount(f"hiding {path}", "/dev/null", path, None, MS_BIND)
