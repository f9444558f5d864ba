"""The supervisor of one container: started by the node agent, outlives it, knows nothing of Kubernetes.

Run as `python -I -S shim.py STEM`. STEM.spec.json says what to run. It leaves three things behind, each written whole
or not at all: STEM.run.json (who runs, since when; durable *before* the program starts), STEM.log (what it wrote, one
stamped line each, as container runtimes do) and STEM.exit.json (how it ended).

STEM.lock is held (flock(2)) from before anything is started until the end is recorded. Whoever gets the lock knows
that no shim lives, without trusting a process id; and a shim that finds STEM.run.json starts nothing, so a container
is never started twice, however often and whenever the agent is killed.

SIGTERM is passed on to the program's process group; SIGUSR1 kills everything. Processes that the program left behind
come to us (PR_SET_CHILD_SUBREAPER) and end with it, as they would with a container's PID namespace. If we are killed,
the kernel kills the program (PR_SET_PDEATHSIG).

A *confined* program is another user's than ours, who are root then. It gets namespaces of its own for processes, mounts
and IPC, with a /proc and a /dev/shm of its own, cannot gain rights (PR_SET_NO_NEW_PRIVS), and every path that its user
chose is opened, and made, with his rights (setfsuid(2)) before we mount it. Process 1 of its namespace is ours: it
passes signals on and reaps, so that programs that do not expect to be process 1 end as they would outside.

Imports are few and cheap, for every container pays for them; nothing of the package is imported.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import json
import os
import select
import signal
import stat
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any, NoReturn

_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER, _PR_SET_NO_NEW_PRIVS = 1, 36, 38
_CLONE_NEWNS, _CLONE_NEWUTS, _CLONE_NEWIPC = 0x00020000, 0x04000000, 0x08000000
_CLONE_NEWUSER, _CLONE_NEWPID = 0x10000000, 0x20000000
_MS_NOSUID, _MS_NODEV = 0x2, 0x4
_PASSED_ON = {signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2}
_MS_RDONLY, _MS_REMOUNT, _MS_BIND, _MS_REC, _MS_SLAVE = 0x1, 0x20, 0x1000, 0x4000, 0x80000
_ACCOUNT = "/var/run/secrets/kubernetes.io/serviceaccount"  # a mount point that anybody's pod may make us make
# As the kubelet's containerLogMaxSize and containerLogMaxFiles.
_LOG_BYTES, LOG_FILES = 10 << 20, 5
_HANDLES = 1 << 16
_LINE_MOST = 16 * 1024  # a longer line is cut into parts, as in the log format of CRI
_POLL_MS = 1000  # every wake-up has a signal; this is for the one that the kernel merged with another
START_FAILED = 128  # the exit code of a container that could not be started, as containerd reports it

_libc = ctypes.CDLL(None, use_errno=True)


class Refused(Exception):
    """The program cannot be started; the text says why."""


def write_whole(path: str, value: dict[str, Any]) -> None:
    """The file is there with all of `value`, and stays, or it is not there."""
    handle = os.open(path + ".new", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(handle, "w") as file:
        json.dump(value, file)
        file.flush()
        os.fsync(file.fileno())
    os.rename(path + ".new", path)
    folder = os.open(os.path.dirname(path), os.O_RDONLY)
    os.fsync(folder)
    os.close(folder)


def start_ticks(pid: int) -> int:
    """When the process began, in clock ticks since boot (proc(5), field 22): with the pid, an identity."""
    with open(f"/proc/{pid}/stat", "rb") as file:
        return int(file.read().rpartition(b")")[2].split()[19])


def boot_id() -> str:
    """Another one after each boot of the machine (proc_sys_kernel(5))."""
    with open("/proc/sys/kernel/random/boot_id") as file:
        return file.read().strip()


# --- the log ----------------------------------------------------------------------------------------------------------


class Log:
    """Whole lines, appended; beyond some size a new file is begun, and the older ones are STEM.log.1, .2 and so on."""

    def __init__(self, path: str) -> None:
        self._path, self._file, self._size = path, -1, 0
        self._open()

    def _open(self) -> None:
        self._file = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        self._size = os.fstat(self._file).st_size

    def write(self, data: bytes) -> None:
        with suppress(OSError):  # a full disk costs the program its words, not its life
            while data:
                written = os.write(self._file, data)
                data = data[written:]
                self._size += written
            if self._size > _LOG_BYTES:
                self._turn()

    def _turn(self) -> None:
        names = [self._path, *(f"{self._path}.{number}" for number in range(1, LOG_FILES))]
        for number in range(LOG_FILES - 1, 0, -1):
            with suppress(FileNotFoundError):
                os.rename(names[number - 1], names[number])
        before = self._file
        self._open()
        os.close(before)


class Stream:
    """One of the program's two outputs, as lines `TIME NAME F|P TEXT`."""

    def __init__(self, name: str, source: int, log: Log) -> None:
        self.source = source
        self._name, self._log, self._rest = name.encode(), log, b""
        os.set_blocking(source, False)

    def pump(self) -> bool:
        """Take what is there; False when the last writer is gone."""
        try:
            chunk = os.read(self.source, 65536)
        except BlockingIOError:
            return True
        if not chunk:
            self._write([(b"F", self._rest)] if self._rest else [])
            self._rest = b""
            return False
        *lines, self._rest = (self._rest + chunk).split(b"\n")
        parts = []
        for line in lines:
            *heads, tail = _cut(line)
            parts += [(b"P", head) for head in heads] + [(b"F", tail)]
        *heads, self._rest = _cut(self._rest)
        self._write(parts + [(b"P", head) for head in heads])
        return True

    def _write(self, lines: list[tuple[bytes, bytes]]) -> None:
        if not lines:
            return
        stamp = _stamp(time.time_ns())
        self._log.write(b"".join(b"%s %s %s %s\n" % (stamp, self._name, tag, text) for tag, text in lines))


def _cut(line: bytes) -> list[bytes]:
    """Pieces of at most the longest line, at least one."""
    return [line[at : at + _LINE_MOST] for at in range(0, len(line), _LINE_MOST)] or [b""]


def _stamp(now_ns: int) -> bytes:
    seconds, nanos = divmod(now_ns, 1_000_000_000)
    return f"{time.strftime('%Y-%m-%dT%H:%M:%S', time.gmtime(seconds))}.{nanos:09d}Z".encode()


# --- the program: everything here runs in its process, before exec ----------------------------------------------------


def _become(spec: dict[str, Any], shim: int, outputs: tuple[int, int], ended: int) -> NoReturn:
    for number in (signal.SIGCHLD, signal.SIGTERM, signal.SIGUSR1, signal.SIGPIPE, signal.SIGXFSZ, signal.SIGINT):
        signal.signal(number, signal.SIG_DFL)
    os.setsid()
    for path in spec["cgroup_procs"]:
        _step(f"joining the cgroup {path}", partial(_write_text, path, "0"))
    _isolate(spec)
    if spec.get("confined"):
        _fork_below_init(ended)
        os.setsid()
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(outputs[0], 1)
    os.dup2(outputs[1], 2)
    os.umask(0o022)
    _become_user(spec)
    _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)  # after the change of user, which would clear it
    if spec.get("confined"):
        _call("giving up new rights", _libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
    elif os.getppid() != shim:
        os._exit(1)
    _step(f"entering the working directory {spec['cwd']}", lambda: os.chdir(spec["cwd"]))
    argv = spec["argv"]
    try:
        os.execvpe(argv[0], argv, spec["env"])  # noqa: S606 - a shell is what this must not be
    except OSError as error:
        known = "/" in argv[0] or any(os.path.isfile(f"{place}/{argv[0]}") for place in os.get_exec_path(spec["env"]))
        why = error.strerror if known else "executable file not found in $PATH"
        raise Refused(f'exec: "{argv[0]}": {why}') from None


def _fork_below_init(ended: int) -> None:
    """Returns in the program's process. This one stays as process 1 of the namespace until the program has ended, and
    writes to `ended` how."""
    program = os.fork()
    if program == 0:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _PASSED_ON)
        return
    _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    os.closerange(0, ended)  # nobody is to wait for us to close what is the program's or the shim's
    os.closerange(ended + 1, _HANDLES)

    def pass_on(number: int, _: Any) -> None:
        with suppress(ProcessLookupError):  # its group is made in a moment, or it is a zombie
            os.kill(program, number) if os.getpgid(program) != program else os.killpg(program, number)

    for number in _PASSED_ON:
        signal.signal(number, pass_on)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _PASSED_ON)
    while True:
        pid, status = os.waitpid(-1, 0)
        if pid == program:
            os.write(ended, status.to_bytes(4, "little"))
            os._exit(0)  # with us the kernel ends all that is left in the namespace


def _become_user(spec: dict[str, Any]) -> None:
    group, user = spec.get("group"), spec.get("user")
    if group is not None:
        groups = spec.get("groups") or [group]
        _step("dropping the other groups", lambda: os.setgroups(groups))
        _step(f"becoming group {group}", lambda: os.setgid(group))
    if user is not None:
        _step(f"becoming user {user}", lambda: os.setuid(user))


def _isolate(spec: dict[str, Any]) -> None:
    """Mounts and a host name of its own (namespaces(7)). Who is not root needs a user namespace for that, in which it
    stays who it is (user_namespaces(7))."""
    name, mounts = spec.get("host_name", "").encode(), spec["mounts"]
    flags = (_CLONE_NEWNS if mounts else 0) | (_CLONE_NEWUTS if name else 0)
    flags |= _CLONE_NEWIPC if spec.get("confined") else 0
    if not flags:
        return
    user, group = os.geteuid(), os.getegid()
    if spec.get("user_namespace"):
        flags |= _CLONE_NEWUSER
    _call("unshare", _libc.unshare(flags))
    if spec.get("user_namespace"):
        _step("giving up groups", partial(_write_text, "/proc/self/setgroups", "deny"))
        _step("staying the same user", partial(_write_text, "/proc/self/uid_map", f"{user} {user} 1"))
        _step("staying in the same group", partial(_write_text, "/proc/self/gid_map", f"{group} {group} 1"))
    if name:
        _call("setting the host name", _libc.sethostname(name, len(name)))
    if mounts:
        _mount_all(mounts, spec)


def _mount_all(mounts: list[dict[str, Any]], spec: dict[str, Any]) -> None:
    """Nobody else sees them, while later mounts of the machine are seen here, too (mount_namespaces(7)).

    All sources are opened before the first is mounted, which may hide another."""
    _call("separating mounts", _libc.mount(b"none", b"/", None, _MS_REC | _MS_SLAVE, None))
    sources = [_opened(mount, spec) for mount in mounts]
    for source, mount in zip(sources, mounts, strict=True):
        target = mount["target"]
        with _rights_of_user({} if target == _ACCOUNT else spec):
            _step(f"making the mount point {target}", partial(_mount_point, os.fstat(source).st_mode, target))
        place = target.encode()
        name = f"/proc/self/fd/{source}".encode()
        _call(f"mounting {target}", _libc.mount(name, place, None, _MS_BIND | _MS_REC, None))
        if mount["read_only"]:
            flags = _MS_BIND | _MS_REMOUNT | _MS_RDONLY
            _call(f"making {target} read-only", _libc.mount(b"none", place, None, flags, None))
    if spec.get("confined"):
        flags = _MS_NOSUID | _MS_NODEV
        _call("mounting /dev/shm", _libc.mount(b"tmpfs", b"/dev/shm", b"tmpfs", flags, b"mode=1777"))
        _call("mounting /proc", _libc.mount(b"proc", b"/proc", b"proc", flags, None))


def _opened(mount: dict[str, Any], spec: dict[str, Any]) -> int:
    """A handle on what is to be mounted. What its user named, a path of the machine or one below a volume, he must be
    able to reach, and what is missing below a volume is made as he."""
    source, below = mount["source"], mount.get("below", "")
    with _rights_of_user(spec if mount.get("by_user") else {}):
        handle = _step(f"opening {source}", lambda: os.open(source, os.O_PATH | os.O_CLOEXEC))
    with _rights_of_user(spec):
        for part in filter(None, below.split("/")):
            handle = _step(f"opening {below} in {source}", partial(_entered, part, handle))
    return int(handle)


def _entered(name: str, folder: int) -> int:
    with suppress(FileExistsError):
        os.mkdir(name, dir_fd=folder)
    return os.open(name, os.O_PATH | os.O_CLOEXEC, dir_fd=folder)


@contextmanager
def _rights_of_user(spec: dict[str, Any]) -> Iterator[None]:
    """Files are opened and made with the rights of a confined program's user (setfsuid(2)); no other program's."""
    if not spec.get("confined"):
        yield
        return
    before = os.getgroups()
    os.setgroups(spec["groups"])
    _libc.setfsgid(spec["group"])
    _libc.setfsuid(spec["user"])
    try:
        yield
    finally:
        _libc.setfsuid(os.geteuid())
        _libc.setfsgid(os.getegid())
        os.setgroups(before)


def _mount_point(mode: int, target: str) -> None:
    if stat.S_ISDIR(mode):
        os.makedirs(target, exist_ok=True)
    elif not os.path.exists(target):
        os.makedirs(os.path.dirname(target), exist_ok=True)
        os.close(os.open(target, os.O_CREAT | os.O_WRONLY, 0o644))


def _call(what: str, result: int) -> None:
    if result != 0:
        raise Refused(f"{what}: {os.strerror(ctypes.get_errno())}")


def _step(what: str, do: Any) -> Any:
    try:
        return do()
    except OSError as error:
        raise Refused(f"{what}: {error.strerror}") from None


def _write_text(path: str, text: str) -> None:
    with open(path, "w") as file:
        file.write(text)


# --- the supervisor ---------------------------------------------------------------------------------------------------


class Shim:
    def __init__(self, stem: str, spec: dict[str, Any]) -> None:
        self.stem, self.spec = stem, spec
        self.main = 0
        self.status: int | None = None  # of waitpid(2), once the program has ended
        self.killing = False
        self.ended = -1
        self.log = Log(stem + ".log")

    def run(self, started: int) -> None:
        """Start the program, tell `started` when it is on record, tend it to its end, record that."""
        _libc.prctl(_PR_SET_CHILD_SUBREAPER, 1)
        wake_read, wake_write = os.pipe()
        os.set_blocking(wake_write, False)
        os.set_blocking(wake_read, False)
        signal.set_wakeup_fd(wake_write, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.signal(signal.SIGTERM, lambda *_: self._pass_on(signal.SIGTERM))
        signal.signal(signal.SIGUSR1, lambda *_: self._kill())
        streams, problem = self._start()
        os.close(started)
        self._tend(streams, wake_read)
        write_whole(self.stem + ".exit.json", self._ending(problem))

    def _start(self) -> tuple[list[Stream], str]:
        out, err, go, failed, ended = os.pipe(), os.pipe(), os.pipe(), os.pipe(), os.pipe()
        shim = os.getpid()
        if self.spec.get("confined"):  # of its children, not of itself
            _call("separating processes", _libc.unshare(_CLONE_NEWPID))
            signal.pthread_sigmask(signal.SIG_BLOCK, _PASSED_ON)  # process 1 would not get them without its handlers
        self.main = os.fork()
        if self.main == 0:
            try:
                os.close(go[1])
                if os.read(go[0], 1):
                    _become(self.spec, shim, (out[1], err[1]), ended[1])
            except BaseException as error:
                os.write(failed[1], str(error).encode())
            os._exit(START_FAILED)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _PASSED_ON)
        for handle in (out[1], err[1], go[0], failed[1], ended[1]):
            os.close(handle)
        self.ended = ended[0]
        record: dict[str, Any] = {"shim_pid": shim, "shim_start": start_ticks(shim), "pid": self.main}
        record |= {"pid_start": start_ticks(self.main), "started_s": time.time(), "boot_id": boot_id()}
        write_whole(self.stem + ".run.json", record)
        os.write(go[1], b"g")
        os.close(go[1])
        with os.fdopen(failed[0], "rb") as file:
            problem = file.read().decode(errors="replace")  # ends at exec, which closes the other end
        return [Stream("stdout", out[0], self.log), Stream("stderr", err[0], self.log)], problem

    def _tend(self, streams: list[Stream], wake: int) -> None:
        poll = select.poll()
        poll.register(wake, select.POLLIN)
        open_streams = {stream.source: stream for stream in streams}
        for source in open_streams:
            poll.register(source, select.POLLIN)
        while not self._reap():
            for handle, _ in poll.poll(_POLL_MS):
                if handle == wake:
                    os.read(wake, 4096)
                elif not open_streams[handle].pump():
                    poll.unregister(open_streams.pop(handle).source)
        for stream in open_streams.values():
            while _readable(stream.source) and stream.pump():
                pass

    def _reap(self) -> bool:
        """Take in the dead; True when the program and all that it left are gone."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return True
            if pid == self.main:
                self.status, self.killing = status, True
            elif pid == 0:
                if self.killing:
                    self._kill()
                return False

    def _pass_on(self, number: int) -> None:
        if self.status is None:  # not reaped: the number cannot be another's
            try:
                os.killpg(self.main, number)
            except ProcessLookupError:  # it has not called setsid yet
                os.kill(self.main, number)

    def _kill(self) -> None:
        """Every child of ours; their children become ours and are next."""
        self.killing = True
        if self.status is None:
            self._pass_on(signal.SIGKILL)
        for pid in _children():
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def _ending(self, problem: str) -> dict[str, Any]:
        assert self.status is not None
        if said := os.read(self.ended, 4):  # process 1 of its namespace tells how it ended
            self.status = int.from_bytes(said, "little")
        number = os.WTERMSIG(self.status) if os.WIFSIGNALED(self.status) else 0
        code = 128 + number if number else os.WEXITSTATUS(self.status)
        oom = number == signal.SIGKILL and any(_oom_kills(path) for path in self.spec["oom_files"])
        reason = "StartError" if problem else "OOMKilled" if oom else ""
        ending = {"exit_code": code, "signal": number, "finished_s": time.time(), "reason": reason, "message": problem}
        return ending | {"peak_memory_bytes": _peak(self.spec.get("peak_files", ()))}


def _readable(source: int) -> bool:
    return bool(select.select([source], [], [], 0)[0])


def _children() -> list[int]:
    me = os.getpid()
    try:
        with open(f"/proc/{me}/task/{me}/children") as file:
            return [int(pid) for pid in file.read().split()]
    except FileNotFoundError:  # a kernel without CONFIG_PROC_CHILDREN
        return [pid for pid in map(int, filter(str.isdigit, os.listdir("/proc"))) if _parent(pid) == me]


def _parent(pid: int) -> int:
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return int(file.read().rpartition(b")")[2].split()[1])
    except OSError:
        return 0


def _peak(paths: list[str]) -> int:
    """The most memory that the group has ever had, in bytes; 0: the kernel does not say."""
    for path in paths:
        with suppress(OSError, ValueError), open(path) as file:
            return int(file.read())
    return 0


def _oom_kills(path: str) -> int:
    """The counter `oom_kill` of memory.events (v2) or memory.oom_control (v1)."""
    try:
        with open(path) as file:
            return sum(int(line.split()[1]) for line in file if line.startswith("oom_kill "))
    except OSError:
        return 0


def probe(source: str, target: str, user_namespace: bool) -> str:
    """Empty if this machine lets us mount and name, else why not."""
    mount = {"source": source, "target": target, "read_only": False}
    try:
        _isolate({"mounts": [mount], "host_name": "probe", "user_namespace": user_namespace})
    except (Refused, OSError) as error:
        return str(error)
    return ""


def main(stem: str) -> None:
    """Returns when the container is on record, started or failed; the supervisor stays behind."""
    lock = os.open(stem + ".lock", os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno in (errno.EAGAIN, errno.EACCES):
            return
        raise
    if os.path.exists(stem + ".run.json") or os.path.exists(stem + ".exit.json"):
        return
    with open(stem + ".spec.json") as file:
        spec = json.load(file)
    ready, started = os.pipe()
    if os.fork():
        os.close(started)
        os.read(ready, 1)
        return
    os.close(ready)
    os.setsid()
    try:
        Shim(stem, spec).run(started)
    except BaseException as error:
        ending = {"exit_code": START_FAILED, "signal": 0, "finished_s": time.time()}
        write_whole(stem + ".exit.json", ending | {"reason": "StartError", "message": f"supervisor: {error!r}"})
        raise


if __name__ == "__main__":
    if sys.argv[1] == "--probe":
        sys.stdout.write(probe(sys.argv[2], sys.argv[3], os.geteuid() != 0))
        sys.stdout.flush()
    else:
        main(sys.argv[1])
    os._exit(0)
