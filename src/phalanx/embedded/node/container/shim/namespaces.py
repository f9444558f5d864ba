"""Create the namespaces of a program (namespaces(7)) for mounts, the host name, IPC and processes. Process 1 of the PID
namespace is a Phalanx process."""

from __future__ import annotations

import errno
import os
import signal
import stat
from contextlib import suppress
from functools import partial

from phalanx.embedded.node.container.shim.privileges import CAP_KILL, rights_of_user
from phalanx.embedded.node.container.shim.record import ShimMount, ShimSpec, start_ticks
from phalanx.embedded.node.container.shim.root import make_root, mount_point
from phalanx.embedded.node.container.shim.syscalls import (
    AT_FDCWD,
    BENEATH,
    CLONE_NEWIPC,
    CLONE_NEWNS,
    CLONE_NEWUSER,
    CLONE_NEWUTS,
    MS_BIND,
    MS_NODEV,
    MS_NOSUID,
    MS_RDONLY,
    MS_REC,
    MS_REMOUNT,
    MS_SLAVE,
    NO_MAGICLINKS,
    NO_SYMLINKS,
    PR_SET_PDEATHSIG,
    SyscallRefused,
    attach,
    call,
    copied_tree,
    libc,
    limit_capabilities,
    make_read_only,
    make_resolved,
    mount,
    open_resolved,
    step,
    write_text,
)

PASSED_ON = {signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2}
_SECRETS = "/var/run/secrets"
# the mount point of service account tokens, which any pod may need
_ACCOUNT = f"{_SECRETS}/kubernetes.io/serviceaccount"
_HANDLES = 1 << 16
_KINDS = {
    "Directory": stat.S_ISDIR,
    "File": stat.S_ISREG,
    "Socket": stat.S_ISSOCK,
    "CharDevice": stat.S_ISCHR,
    "BlockDevice": stat.S_ISBLK,
}


def has_own_processes(spec: ShimSpec) -> bool:
    """Return True if the program sees only its own processes."""
    return bool(spec.get("confined")) or spec.get("root") is not None


def enter_user_namespace(user: int, group: int) -> None:
    """Enter a new user namespace, in which this process has the rights of root (user_namespaces(7)). In this namespace,
    the user and the group of the process have the numbers `user` and `group`. Raises SyscallRefused."""
    before = os.geteuid(), os.getegid()
    call("unshare", libc.unshare(CLONE_NEWUSER))
    step("giving up groups", partial(write_text, "/proc/self/setgroups", "deny"))
    step("mapping the user", partial(write_text, "/proc/self/uid_map", f"{user} {before[0]} 1"))
    step("mapping the group", partial(write_text, "/proc/self/gid_map", f"{group} {before[1]} 1"))


def join_processes(pid: int, start: int, *, user_namespace: bool) -> None:
    """Make future child processes join the PID namespace of the process `pid`, which started at `start`. Raises
    SyscallRefused."""
    names = ("user", "pid") if user_namespace else ("pid",)
    handles = [step("entering the target container", partial(_namespace, pid, name)) for name in names]
    if step("entering the target container", partial(start_ticks, pid)) != start:
        raise SyscallRefused("the target container has ended")  # the process id was reused
    for handle in handles:
        call("entering the target container", libc.setns(handle, 0))
        os.close(handle)


def _namespace(pid: int, name: str) -> int:
    return os.open(f"/proc/{pid}/ns/{name}", os.O_RDONLY | os.O_CLOEXEC)


def isolate(spec: ShimSpec) -> None:
    """Enter new namespaces for mounts and the host name. Without root this needs a user namespace, in which the user
    keeps the uid and gid. If the program has its own root, the supervisor has already entered a user namespace. Raises
    SyscallRefused."""
    name, mounts, root = spec.get("host_name", "").encode(), spec["mounts"], spec.get("root")
    flags = (CLONE_NEWNS if mounts or root else 0) | (CLONE_NEWUTS if name else 0)
    flags |= CLONE_NEWIPC if has_own_processes(spec) else 0
    if not flags:
        return
    if spec.get("user_namespace") and root is None:
        enter_user_namespace(os.geteuid(), os.getegid())
    call("unshare", libc.unshare(flags))
    if name:
        call("setting the host name", libc.sethostname(name, len(name)))
    if root is not None:
        make_root(spec, root, [(_opened(one, spec), one) for one in mounts])
    elif mounts:
        _mount_all(mounts, spec)


def _mount_all(mounts: list[ShimMount], spec: ShimSpec) -> None:
    """Make the mounts in this mount namespace: other processes do not see these mounts, but later mounts of the machine
    appear in this namespace too (mount_namespaces(7)). All sources are opened before the first mount, because a mount
    may hide another source."""
    mount("separating mounts", "none", "/", None, MS_REC | MS_SLAVE)
    sources = [_opened(one, spec) for one in mounts]
    account = _account_point() if any(one["target"] == _ACCOUNT for one in mounts) else None
    for source, one in zip(sources, mounts, strict=True):
        if spec.get("confined"):
            _mount_for_user(source, one, spec, account)
        else:
            _mount_here(source, one)
    if spec.get("confined"):
        flags = MS_NOSUID | MS_NODEV
        mount("mounting /dev/shm", "tmpfs", "/dev/shm", "tmpfs", flags, "mode=1777")  # noqa: S108 - its own
        mount("mounting /proc", "proc", "/proc", "proc", flags)


def _mount_here(source: int, one: ShimMount) -> None:
    """Make the mount by mount(2) with paths. Paths are safe in this case, because they were chosen by the user of this
    process."""
    target = one["target"]
    step(f"making the mount point {target}", partial(_mount_point, os.fstat(source).st_mode, target))
    mount(f"mounting {target}", f"/proc/self/fd/{source}", target, None, MS_BIND | MS_REC)
    if one["read_only"]:
        mount(f"making {target} read-only", "none", target, None, MS_BIND | MS_REMOUNT | MS_RDONLY)


def _mount_for_user(source: int, one: ShimMount, spec: ShimSpec, account: int | None) -> None:
    """Make the mount for a confined program by file descriptors only. Paths would be unsafe: they could lead root
    through mounts of the user (even of /proc), and the user could change them at the same time."""
    target = one["target"]
    tree = copied_tree(f"taking {one['source']}", source)
    if one["read_only"]:
        make_read_only(f"making {target} read-only", tree)
    if account is not None and target == _ACCOUNT and _is_at(account, target):
        point = os.dup(account)
    else:
        point = mount_point(target, spec, file=not stat.S_ISDIR(os.fstat(tree).st_mode))
    attach(f"mounting {target}", tree, point)
    for handle in (source, tree, point):
        os.close(handle)


def _is_at(handle: int, path: str) -> bool:
    """Return True if the path still leads to the open file, that is, if no mount hides the file."""
    with suppress(OSError):
        return os.path.samestat(os.fstat(handle), os.stat(path))
    return False


def _account_point() -> int:
    """Return a file descriptor of the mount point of the service account. Raises SyscallRefused."""
    if not os.path.isdir(_ACCOUNT):
        _make_account_point()
    return step(f"opening {_ACCOUNT}", partial(os.open, _ACCOUNT, os.O_PATH | os.O_CLOEXEC))


def _make_account_point() -> None:
    """Create the mount point of the service account. A tmpfs is mounted over its parent folder; the machine's files in
    this folder stay visible with their permissions. The mount point must not exist on the machine itself: if client
    libraries find it, they assume that they run in a pod."""
    place = parent if os.path.isdir(parent := os.path.dirname(_ACCOUNT)) else _SECRETS
    step(f"making {place}", partial(os.makedirs, place, exist_ok=True))
    mode = stat.S_IMODE(os.stat(place).st_mode)
    paths = [one.path for one in os.scandir(place) if os.path.exists(one.path)]
    kept = [(path, step(f"opening {path}", partial(os.open, path, os.O_PATH | os.O_CLOEXEC))) for path in paths]
    mount(f"mounting {place}", "tmpfs", place, "tmpfs", MS_NOSUID | MS_NODEV, f"mode={mode:o}")
    for path, source in kept:
        step(f"making the mount point {path}", partial(_mount_point, os.fstat(source).st_mode, path))
        mount(f"mounting {path}", f"/proc/self/fd/{source}", path, None, MS_BIND | MS_REC)
        os.close(source)
    step(f"making the mount point {_ACCOUNT}", partial(os.makedirs, _ACCOUNT, exist_ok=True))


def _opened(one: ShimMount, spec: ShimSpec) -> int:
    """Return a file descriptor of the source of the mount. If the user named the path, the user must have access to it,
    on the machine or below a volume. A missing folder below a volume is created with the rights of this user. Raises
    SyscallRefused."""
    source, below = one["source"], one.get("below", "")
    with rights_of_user(spec if one.get("by_user") else {}):
        handle = step(f"opening {source}", partial(_opened_source, one, spec))
    if spec.get("confined"):
        _require_kind(handle, one)
        with rights_of_user(spec):
            return _below(handle, below, source) if below else handle
    for part in filter(None, below.split("/")):
        handle = step(f"opening {below} in {source}", partial(_entered, part, handle))
    return handle


def _opened_source(one: ShimMount, spec: ShimSpec) -> int:
    """Return a file descriptor of the source path of the mount. Raises OSError, SyscallRefused."""
    if not spec.get("confined"):
        return os.open(one["source"], os.O_PATH | os.O_CLOEXEC)
    try:
        return open_resolved(AT_FDCWD, one["source"], NO_SYMLINKS if one.get("no_links") else NO_MAGICLINKS)
    except OSError as error:
        if error.errno == errno.ELOOP:
            text = "a symbolic link in it leads out of it, or it is a path of a process (/proc/PID)"
            raise SyscallRefused(f"opening {one['source']}: {text}") from None
        raise


def _require_kind(handle: int, one: ShimMount) -> None:
    """Check the type of a hostPath volume. Raises SyscallRefused."""
    kind, mode = one.get("kind", ""), os.fstat(handle).st_mode
    if kind in _KINDS and not _KINDS[kind](mode):
        raise SyscallRefused(f"hostPath type check failed: {one['source']} is not a {kind}")


def _below(folder: int, path: str, source: str) -> int:
    """Return a file descriptor of `path` below `folder`, and close `folder`. Raises SyscallRefused."""
    try:
        return make_resolved(folder, path, BENEATH | NO_MAGICLINKS)
    except OSError as error:
        why = "a link leads out of the volume" if error.errno == errno.EXDEV else error.strerror
        raise SyscallRefused(f"opening {path} in {source}: {why}") from None
    finally:
        os.close(folder)


def _entered(name: str, folder: int) -> int:
    with suppress(FileExistsError):
        os.mkdir(name, dir_fd=folder)
    return os.open(name, os.O_PATH | os.O_CLOEXEC, dir_fd=folder)


def _mount_point(mode: int, target: str) -> None:
    if stat.S_ISDIR(mode):
        os.makedirs(target, exist_ok=True)
    elif not os.path.exists(target):
        os.makedirs(os.path.dirname(target), exist_ok=True)
        os.close(os.open(target, os.O_CREAT | os.O_WRONLY, 0o644))


def fork_below_init(ended: int) -> None:
    """Fork, and return only in the child, which becomes the program. The parent stays as process 1 of the namespace
    until the program has ended, and then writes the program's wait status to `ended`."""
    program = os.fork()
    if program == 0:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, PASSED_ON)
        return
    libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    # only CAP_KILL, to forward signals: the program sees this process, and could use its other capabilities
    limit_capabilities((CAP_KILL,))
    # close the descriptors of the program and of the shim, because readers of a pipe would wait as long as this process
    # has the other end open
    os.closerange(0, ended)
    os.closerange(ended + 1, _HANDLES)

    def pass_on(number: int, _: object) -> None:
        with suppress(ProcessLookupError):  # the program has no process group yet, or has ended
            os.kill(program, number) if os.getpgid(program) != program else os.killpg(program, number)

    for number in PASSED_ON:
        signal.signal(number, pass_on)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, PASSED_ON)
    while True:
        pid, status = os.waitpid(-1, 0)
        if pid == program:
            os.write(ended, status.to_bytes(4, "little"))
            os._exit(0)  # at this exit, the kernel ends all processes of the namespace
