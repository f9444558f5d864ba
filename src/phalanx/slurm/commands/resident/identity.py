"""A fork of the service becomes its caller: the same user and groups, limits and priority, and no more rights.

The kernel says who the caller is (SO_PEERCRED, SO_PEERGROUPS: unix(7)), as it was when it connected. The caller names
neither a user nor a group. A caller that the fork cannot become is declined, and runs the command itself:

- a caller that has other rights than a login of its user: of a set-user-ID program, with fewer capabilities, under
  seccomp or PR_SET_NO_NEW_PRIVS;
- a caller in another namespace (a container, a pod), to which paths and addresses mean something else;
- a caller of another user, where the service itself is not root's.
"""

from __future__ import annotations

import array
import os
import resource
import select
import socket
import struct
from contextlib import suppress

import msgspec

_SO_PEERGROUPS, _SO_PEERPIDFD = 59, 77  # asm-generic/socket.h; the second one from Linux 6.5 on
_MAX_GROUPS = 256  # getsockopt of Python reads 1,024 bytes at most
_NAMESPACES = ("mnt", "net", "pid", "user", "uts", "cgroup")
_RIGHTS = ("Uid", "Gid", "Groups", "CapInh", "CapPrm", "CapEff", "CapAmb", "NoNewPrivs", "Seccomp")  # proc(5), status
_OVERFLOW = 65534  # the kernel shows this number for users that a user namespace does not map
_LIMITS = tuple(value for name, value in sorted(vars(resource).items()) if name.startswith("RLIMIT_"))
_MEMORY_BYTES = 4 << 30  # the most memory of one call, so that a call that reads without end does not end the service
_FIRST_TO_GO = b"1000"  # oom_score_adj, proc(5): where memory is short a call ends, and not the service


class Declined(Exception):
    """The service does not run this call; its caller does. The text says why, for the log of the service."""


class CallerProcess(msgspec.Struct, frozen=True):
    """The process at the other end of a connection. `handle`: a handle on the process (pidfd_open(2)), which a
    later process with the same number does not share."""

    pid: int
    uid: int
    gid: int
    groups: tuple[int, ...]
    handle: int


def user_of(connection: socket.socket) -> int:
    """Return the user who connected. Raises OSError."""
    return _credentials(connection)[1]


def peer_of(connection: socket.socket) -> CallerProcess:
    """Return the process that connected. Raises Declined, OSError."""
    pid, uid, gid = _credentials(connection)
    found = array.array("I", connection.getsockopt(socket.SOL_SOCKET, _SO_PEERGROUPS, 4 * _MAX_GROUPS))
    if pid <= 0 or _OVERFLOW in (uid, gid, *found):
        raise Declined("the caller is not of this user namespace")
    return CallerProcess(pid, uid, gid, tuple(found), _handle(connection, pid))


def _credentials(connection: socket.socket) -> tuple[int, int, int]:
    size = struct.calcsize("iII")
    pid, uid, gid = struct.unpack("iII", connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, size))
    return pid, uid, gid


def _handle(connection: socket.socket, pid: int) -> int:
    try:
        seen = connection.getsockopt(socket.SOL_SOCKET, _SO_PEERPIDFD)
    except OSError:  # Linux before 6.5
        return os.pidfd_open(pid)
    os.set_inheritable(seen, False)
    return seen


def become(peer: CallerProcess) -> None:
    """Give this process the user, the groups and the limits of the caller. Raises Declined, OSError."""
    if os.geteuid() != 0 and os.geteuid() != peer.uid:
        raise Declined(f"user {peer.uid} is another one than the service's")
    with suppress(OSError), open("/proc/self/oom_score_adj", "wb", buffering=0) as file:
        file.write(_FIRST_TO_GO)
    if os.geteuid() == 0:
        os.setgroups(peer.groups)
        os.setresgid(peer.gid, peer.gid, peer.gid)
        os.setresuid(peer.uid, peer.uid, peer.uid)
    _require_equal(peer)
    _take_limits(peer.pid)


def _take_limits(pid: int) -> None:
    """Set the caller's resource limits and niceness for this process. Limits stay within the hard limits of the
    service."""
    for kind in _LIMITS:
        soft, hard = resource.prlimit(pid, kind)
        most = resource.getrlimit(kind)[1]
        resource.setrlimit(kind, (_lower(soft, most), _lower(hard, most)))
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (_lower(soft, _MEMORY_BYTES), hard))
    with suppress(PermissionError):  # the caller has a higher priority than the service
        os.setpriority(os.PRIO_PROCESS, 0, os.getpriority(os.PRIO_PROCESS, pid))


def _lower(limit: int, other: int) -> int:
    if resource.RLIM_INFINITY in (limit, other):
        return other if limit == resource.RLIM_INFINITY else limit
    return min(limit, other)


def _require_equal(peer: CallerProcess) -> None:
    """Raise Declined if this process and the caller differ in their rights, their namespaces or their root
    directory."""
    for name in _NAMESPACES:
        if not os.path.samestat(os.stat(f"/proc/{peer.pid}/ns/{name}"), os.stat(f"/proc/self/ns/{name}")):
            raise Declined(f"the caller is in another namespace ({name})")
    if not os.path.samestat(os.stat(f"/proc/{peer.pid}/root"), os.stat("/")):
        raise Declined("the caller has another root directory")
    own, other = _rights("self"), _rights(str(peer.pid))
    for name in _RIGHTS:
        if own.get(name) != other.get(name):
            raise Declined(f"the caller has other rights ({name})")
    if select.select([peer.handle], [], [], 0)[0]:
        raise Declined("the caller is gone")  # another process may have its number by now


def _rights(process: str) -> dict[str, list[str]]:
    with open(f"/proc/{process}/status") as file:
        pairs = (line.partition(":") for line in file)
        return {name: value.split() for name, _, value in pairs if name in _RIGHTS}
