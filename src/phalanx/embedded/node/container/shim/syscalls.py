"""System calls that Python does not offer, with error messages.

open_tree(2) copies a mount and returns a file descriptor of the copy, and move_mount(2) attaches the copy. The root may
be changed between both calls, so that no link of an image can redirect the source of a mount. The numbers of these
calls are the same on all architectures except Alpha (include/uapi/asm-generic/unistd.h).
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

CLONE_NEWNS, CLONE_NEWUTS, CLONE_NEWIPC = 0x00020000, 0x04000000, 0x08000000
CLONE_NEWUSER, CLONE_NEWPID = 0x10000000, 0x20000000
MS_RDONLY, MS_NOSUID, MS_NODEV, MS_NOEXEC, MS_REMOUNT = 0x1, 0x2, 0x4, 0x8, 0x20
MS_BIND, MS_REC, MS_SLAVE = 0x1000, 0x4000, 0x80000
MNT_DETACH = 2
PR_SET_PDEATHSIG, PR_SET_DUMPABLE, PR_CAPBSET_DROP, PR_SET_CHILD_SUBREAPER, PR_SET_NO_NEW_PRIVS = 1, 4, 24, 36, 38
_CAPABILITIES_VERSION_3 = 0x20080522
_OPEN_TREE, _MOVE_MOUNT, _OPENAT2, _MOUNT_SETATTR = 428, 429, 437, 442
_AT_FDCWD, _AT_EMPTY_PATH, _AT_RECURSIVE = -100, 0x1000, 0x8000
_OPEN_TREE_CLONE, _OPEN_TREE_CLOEXEC = 0x1, os.O_CLOEXEC
_MOVE_MOUNT_F_EMPTY_PATH, _MOVE_MOUNT_T_EMPTY_PATH = 0x4, 0x40
_MOUNT_ATTR_RDONLY = 0x1
AT_FDCWD = _AT_FDCWD  # follow a path from the working directory
# Flags of openat2(2) for following a path. NO_XDEV: enter no other mount. NO_MAGICLINKS: follow no link of /proc.
# NO_SYMLINKS: follow no symbolic link. BENEATH: fail with EXDEV for a file outside the directory. IN_ROOT: treat the
# directory as the root.
NO_XDEV, NO_MAGICLINKS, NO_SYMLINKS, BENEATH, IN_ROOT = 0x01, 0x02, 0x04, 0x08, 0x10
_HANDLE = os.O_PATH | os.O_CLOEXEC

Result = TypeVar("Result")
libc = ctypes.CDLL(None, use_errno=True)


class SyscallRefused(Exception):
    """Raised if the program cannot be started. The message states the reason."""


def call(what: str, result: int) -> int:
    """Return the result of a system call. Raises SyscallRefused if it is negative. `what`: the action, for the
    message."""
    if result < 0:
        raise SyscallRefused(f"{what}: {os.strerror(ctypes.get_errno())}")
    return result


def step(what: str, do: Callable[[], Result]) -> Result:
    """Call `do`, and return its result. Raises SyscallRefused instead of OSError."""
    try:
        return do()
    except OSError as error:
        raise SyscallRefused(f"{what}: {error.strerror}") from None


def mount(what: str, source: str, target: str, kind: str | None, flags: int, options: str | None = None) -> None:
    """Mount the file system `source` at the directory `target`. Raises SyscallRefused."""
    coded = [None if text is None else os.fsencode(text) for text in (source, target, kind)]
    call(what, libc.mount(*coded, ctypes.c_ulong(flags), None if options is None else os.fsencode(options)))


class _How(ctypes.Structure):
    _fields_ = (("flags", ctypes.c_uint64), ("mode", ctypes.c_uint64), ("resolve", ctypes.c_uint64))


def open_resolved(folder: int, path: str, resolve: int, flags: int = _HANDLE) -> int:
    """Return a file descriptor of `path`, resolved from `folder` with the restrictions `resolve` (openat2(2)). Raises
    OSError."""
    how = _How(flags, 0, resolve)
    found = int(libc.syscall(_OPENAT2, folder, os.fsencode(path), ctypes.byref(how), ctypes.sizeof(how)))
    if found < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), path)
    return found


def make_resolved(folder: int, path: str, resolve: int, *, file: bool = False) -> int:
    """Return a file descriptor of `path`, and create its missing directories and, with `file`, an empty file at its
    end. Each directory is created relative to the file descriptor of its parent, so that a link that changes in the
    meantime cannot redirect the path. Raises OSError."""
    path = path.strip("/") or "."
    try:
        return open_resolved(folder, path, resolve)
    except FileNotFoundError:
        parent, _, name = path.rpartition("/")
        above = make_resolved(folder, parent, resolve)
    try:
        if file:
            os.close(os.open(name, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o644, dir_fd=above))
        else:
            os.mkdir(name, 0o755, dir_fd=above)
        return os.open(name, _HANDLE | os.O_NOFOLLOW, dir_fd=above)
    finally:
        os.close(above)


def copied_tree(what: str, handle: int) -> int:
    """Return a file descriptor of a copy of the mount at `handle` and of all mounts below it. Raises SyscallRefused."""
    flags = _OPEN_TREE_CLONE | _OPEN_TREE_CLOEXEC | _AT_EMPTY_PATH | _AT_RECURSIVE
    return call(what, libc.syscall(_OPEN_TREE, handle, b"", flags))


def attach(what: str, tree: int, point: int) -> None:
    """Attach a detached copy of a mount to the directory of the file descriptor `point`. Raises SyscallRefused."""
    flags = _MOVE_MOUNT_F_EMPTY_PATH | _MOVE_MOUNT_T_EMPTY_PATH
    call(what, libc.syscall(_MOVE_MOUNT, tree, b"", point, b"", flags))


def make_read_only(what: str, tree: int) -> None:
    """Make a mount and all mounts below it read-only. Raises SyscallRefused before Linux 5.12."""
    asked = (ctypes.c_uint64 * 4)(_MOUNT_ATTR_RDONLY, 0, 0, 0)  # struct mount_attr: set, clear, propagation, userns
    flags = _AT_EMPTY_PATH | _AT_RECURSIVE
    call(what, libc.syscall(_MOUNT_SETATTR, tree, b"", flags, ctypes.byref(asked), ctypes.sizeof(asked)))


def _capabilities() -> tuple[Any, Any]:
    """Return the arguments for capset(2) that describe the present capabilities of this process. Raises
    SyscallRefused."""
    head = (ctypes.c_uint32 * 2)(_CAPABILITIES_VERSION_3, 0)
    sets = (ctypes.c_uint32 * 6)()  # effective, permitted, inheritable for capabilities 0 to 31, and then for 32 to 63
    call("reading capabilities", libc.capget(head, sets))
    return head, sets


@contextmanager
def without_capabilities() -> Iterator[None]:
    """Make all capabilities of this process ineffective in this context, and restore them at the end of the context.
    Raises SyscallRefused."""
    head, sets = _capabilities()
    before = tuple(sets)
    sets[0] = sets[3] = 0
    call("putting capabilities aside", libc.capset(head, sets))
    try:
        yield
    finally:
        sets[:] = before
        call("taking capabilities up again", libc.capset(head, sets))


def limit_capabilities(kept: Iterable[int]) -> None:
    """Drop all capabilities of this process except `kept` (capset(2)). Raises SyscallRefused."""
    head, sets = _capabilities()
    mask = sum(1 << number for number in kept)
    for place, word in enumerate((mask & 0xFFFFFFFF, mask >> 32)):
        permitted = sets[3 * place + 1] & word
        sets[3 * place : 3 * place + 3] = [permitted, permitted, 0]
    call("giving up capabilities", libc.capset(head, sets))


def pivot_root_to_here() -> None:
    """Make the current directory, which must be a mount, the root, and unmount the old root. Raises SyscallRefused."""
    number = {"x86_64": 155, "aarch64": 41, "riscv64": 41, "ppc64le": 203, "s390x": 217}.get(os.uname().machine)
    if number is None:
        raise SyscallRefused(f"pivot_root: not known for the architecture {os.uname().machine}")
    call("pivot_root", libc.syscall(number, b".", b"."))
    call("leaving the machine's own files", libc.umount2(b".", MNT_DETACH))
    os.chdir("/")


def write_text(path: str, text: str) -> None:
    """Write the text into a file of /proc, /sys or a control group. Raises OSError."""
    with open(path, "w") as file:
        file.write(text)
