"""Set the user, groups and capabilities of a program.

A program with its own root has only the given capabilities (capabilities(7)). All other capabilities are removed from
its bounding set, so that no program of the image can regain them. Phalanx's own processes in the program's namespace
(process 1, and processes that enter it to run a command) give up the capabilities that they do not need. Otherwise a
program could trace these processes and use their capabilities.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress

from phalanx.embedded.node.container.shim.record import ShimSpec
from phalanx.embedded.node.container.shim.syscalls import (
    PR_CAPBSET_DROP,
    PR_SET_DUMPABLE,
    PR_SET_NO_NEW_PRIVS,
    SyscallRefused,
    call,
    libc,
    limit_capabilities,
    step,
    without_capabilities,
)

_ACCOUNTS_BYTES = 1 << 20  # the maximum number of bytes of an image's /etc/passwd and /etc/group that are read
_CAPABILITIES = 64
CAP_KILL = 5
_ASKED = -1  # no user has this number, so setfsuid(2) with it only returns the present user


def become_user(spec: ShimSpec) -> None:
    """Switch this process to the user, the groups and the capabilities of the program. The root directory of this
    process is already that of the program, so user names are looked up in the image. Raises SyscallRefused."""
    user, group, groups = spec.get("user"), spec.get("group"), spec.get("groups")
    named = not spec.get("confined") and not spec.get("user_namespace")
    if (root := spec.get("root")) is not None and named:
        user, group, groups = _of_image(root["user"] if user is None else str(user), group, groups)
    if (capabilities := spec.get("capabilities")) is not None:
        _keep_capabilities(capabilities)
    if group is not None:
        step("dropping the other groups", lambda: os.setgroups(groups or [group]))
        step(f"becoming group {group}", lambda: os.setgid(group))
    if user is not None:
        step(f"becoming user {user}", lambda: os.setuid(user))


def hide_from_program(kept: Iterable[int]) -> None:
    """Reduce this process to the capabilities `kept`, and forbid unprivileged processes to trace it (PR_SET_DUMPABLE).
    The effect ends when the process calls exec. Raises SyscallRefused."""
    limit_capabilities(kept)
    call("hiding from the container", libc.prctl(PR_SET_DUMPABLE, 0, 0, 0, 0))


def give_up_new_rights() -> None:
    """Make sure that this process and its children gain no rights by an exec (PR_SET_NO_NEW_PRIVS). Raises
    SyscallRefused."""
    call("giving up new rights", libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))


def _keep_capabilities(kept: list[int]) -> None:
    for number in range(_CAPABILITIES):
        if number not in kept and libc.prctl(PR_CAPBSET_DROP, number, 0, 0, 0) != 0:
            break  # the kernel knows no capability with this number


def _of_image(said: str, group: int | None, groups: list[int] | None) -> tuple[int, int, list[int]]:
    """Return the uid, the gid and the supplementary gids for `USER[:GROUP]`. USER and GROUP may be names or numbers. If
    the image names a group, the user gets no supplementary groups (OCI image-spec, config.md)."""
    name, _, group_name = said.partition(":")
    user = _number(name or "0", "/etc/passwd", 7)
    row = next((row for row in _accounts("/etc/passwd", 7) if row[2] == str(user)), None)
    by_image = group is None
    if group is None:
        group = _number(group_name or (row[3] if row is not None else "0"), "/etc/group", 4)
    if not groups and by_image and group_name:
        groups = [group]
    if not groups:
        own = row[0] if row is not None else None
        groups = [group, *(int(one[2]) for one in _accounts("/etc/group", 4) if own in one[3].split(","))]
    return user, group, groups


def _number(name: str, path: str, fields: int) -> int:
    """Return the id for a name. A number is taken as an id, even if it is the name of a user."""
    if name.isdigit():
        return int(name)
    row = next((row for row in _accounts(path, fields) if row[0] == name), None)
    if row is None:
        raise SyscallRefused(f"the image names {name!r}, which is not in its {path}")
    return int(row[2])


def home() -> str:
    """Return the home directory of the current user from the image's /etc/passwd; "/" if it has none."""
    user = str(os.getuid())
    return next((row[5] for row in _accounts("/etc/passwd", 7) if row[2] == user and row[5]), "/")


def _accounts(path: str, fields: int) -> list[list[str]]:
    with suppress(OSError), open(path, errors="replace") as file:
        rows = [line.rstrip("\n").split(":") for line in file.read(_ACCOUNTS_BYTES).splitlines()]
        return [row for row in rows if len(row) == fields and row[2].isdigit()]
    return []


@contextmanager
def rights_of_user(spec: ShimSpec) -> Iterator[None]:
    """While this context is open, files are opened and created with the rights of the program's user (setfsuid(2)), if
    the program is confined. For other programs the context has no effect. In the context, this process also has no
    capabilities: with the capability to trace processes, a path below /proc/PID could lead into any process. Raises
    SyscallRefused."""
    if not spec.get("confined"):
        yield
        return
    before = os.getgroups()
    os.setgroups(spec["groups"])
    libc.setfsgid(spec["group"])
    libc.setfsuid(spec["user"])
    try:
        if (libc.setfsuid(_ASKED), libc.setfsgid(_ASKED)) != (spec["user"], spec["group"]):
            raise SyscallRefused(f"this process cannot get the rights of user {spec['user']}")
        with without_capabilities():
            yield
    finally:
        libc.setfsuid(os.geteuid())
        libc.setfsgid(os.getegid())
        os.setgroups(before)
