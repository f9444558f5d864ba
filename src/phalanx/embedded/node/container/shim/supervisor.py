"""The supervisor of one container, which is the main part of the shim. The node agent starts the supervisor. The
supervisor continues after the end of the agent, and does not depend on Kubernetes.

A child process of the agent forks supervisors (`serve`). It imports all modules that a supervisor needs. So the start
of a supervisor takes only the time of a fork, and all supervisors share the memory of these modules. This process ends
with the agent; the supervisors continue.

STEM is the common beginning of the paths of a container's files. STEM.spec.json defines the program. The supervisor
writes three files, each atomically: STEM.run.json (the process and its start time; durable *before* the program
starts), STEM.log (the output, in lines with time stamps, as container runtimes write it) and STEM.exit.json (the end).

The shim holds a lock on STEM.lock (flock(2)) from before the start of the program until the end is recorded. So a
process that gets the lock knows that no shim runs, without looking for process ids. A shim that finds STEM.run.json
starts no program, so a container is never started twice, even if the agent is killed many times.

SIGTERM is forwarded to the program's process group; SIGUSR1 kills all processes. Orphaned processes of the program
become children of the supervisor (PR_SET_CHILD_SUBREAPER), and end with the program, as in a container's PID namespace.
If the supervisor is killed, the kernel kills the program (PR_SET_PDEATHSIG).

A *confined* program runs as another user, under a supervisor that is root. The program gets new namespaces for
processes, mounts and IPC, with its own /proc and /dev/shm, and cannot gain rights (PR_SET_NO_NEW_PRIVS). Every path
that its user chose is opened, or created, with that user's rights (setfsuid(2)) before the mount. Process 1 of its
namespace is a process of Phalanx. It forwards signals and reaps ended processes, because many programs do not work
correctly as process 1.

A program with its own *root* sees the files of its image instead of the machine's files (`root`), and is isolated in
the same way as a confined program. The supervisor imports only the other modules of this folder.
"""

from __future__ import annotations

import errno
import fcntl
import gc
import json
import os
import select
import signal
import socket
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import NoReturn

from phalanx.embedded.node.container.shim.namespaces import (
    PASSED_ON,
    enter_user_namespace,
    has_own_processes,
    isolate,
    join_processes,
)
from phalanx.embedded.node.container.shim.program import become, enter
from phalanx.embedded.node.container.shim.record import (
    ShimMount,
    ShimRoot,
    ShimSpec,
    boot_id,
    start_ticks,
    write_whole,
)
from phalanx.embedded.node.container.shim.streams import Input, Log, ShimStream
from phalanx.embedded.node.container.shim.syscalls import (
    CLONE_NEWPID,
    PR_SET_CHILD_SUBREAPER,
    SyscallRefused,
    call,
    libc,
)

_STEM_BYTES = 1 << 16
_POLL_MS = 1000  # a signal wakes the loop; the timeout is needed because the kernel may merge two signals into one
_NOBODY = 65534
START_FAILED = 128  # the exit code of a container that could not be started, as containerd reports it


class Shim:
    def __init__(self, stem: str, spec: ShimSpec) -> None:
        self.stem, self.spec = stem, spec
        self.main = 0
        self.status: int | None = None  # the status from waitpid(2), once the program has ended
        self.killing = False
        self.ended = -1
        self.log = Log(stem + ".log")
        self.input: Input | None = None

    def run(self, started: int) -> None:
        """Start the program, signal `started` when the start is recorded, supervise the program, and record its end."""
        libc.prctl(PR_SET_CHILD_SUBREAPER, 1)
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

    def _start(self) -> tuple[list[ShimStream], str]:
        go, failed, ended = os.pipe(), os.pipe(), os.pipe()
        its, streams = self._standard_streams()
        shim = os.getpid()
        if has_own_processes(self.spec):
            separate_processes(self.spec)
            # blocked, because process 1 ignores signals without a handler
            signal.pthread_sigmask(signal.SIG_BLOCK, PASSED_ON)
        self.main = os.fork()
        if self.main == 0:
            try:
                os.close(go[1])
                if os.read(go[0], 1):
                    become(self.spec, shim, its, ended[1])
            except BaseException as error:  # report any error to the parent, and end this child process
                os.write(failed[1], str(error).encode())
            os._exit(START_FAILED)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, PASSED_ON)
        for handle in {*its, go[0], failed[1], ended[1]}:
            os.close(handle)
        self.ended = ended[0]
        record: dict[str, object] = {"shim_pid": shim, "shim_start": start_ticks(shim), "pid": self.main}
        record |= {"pid_start": start_ticks(self.main), "started_s": time.time(), "boot_id": boot_id()}
        write_whole(self.stem + ".run.json", record)
        os.write(go[1], b"g")
        os.close(go[1])
        with os.fdopen(failed[0], "rb") as file:
            # a successful exec closes the other end of the pipe, so the read ends without a message
            problem = file.read().decode(errors="replace")
        return streams, problem

    def _standard_streams(self) -> tuple[tuple[int, int, int], list[ShimStream]]:
        """Return the program's ends of its input and outputs, and the streams that write the outputs to the log."""
        if self.spec.get("tty"):
            ours, its = os.openpty()
            if self.spec.get("stdin"):
                self.input = Input(self.stem + ".stdin", os.dup(ours), tty=True)
            return (its, its, its), [ShimStream("stdout", ours, self.log, prompt=True)]
        out, err = os.pipe(), os.pipe()
        streams = [ShimStream("stdout", out[0], self.log), ShimStream("stderr", err[0], self.log)]
        if not self.spec.get("stdin"):
            return (os.open(os.devnull, os.O_RDONLY), out[1], err[1]), streams
        source, target = os.pipe()
        self.input = Input(self.stem + ".stdin", target, tty=False)
        return (source, out[1], err[1]), streams

    def _tend(self, streams: list[ShimStream], wake: int) -> None:
        poll = select.poll()
        poll.register(wake, select.POLLIN)
        open_streams = {stream.source: stream for stream in streams}
        for source in open_streams:
            poll.register(source, select.POLLIN)
        if self.input is not None:
            self.input.watch(poll)
        while not self._reap():
            for handle, _ in poll.poll(_POLL_MS):
                if handle == wake:
                    os.read(wake, 4096)
                elif self.input is not None and handle in (self.input.source, self.input.target):
                    self.input.pump(poll)
                elif not open_streams[handle].pump():
                    poll.unregister(open_streams.pop(handle).source)
        for stream in open_streams.values():
            while _readable(stream.source) and stream.pump():
                pass

    def _reap(self) -> bool:
        """Reap ended children. Return True when the program and all its descendants have ended."""
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
        if self.status is None:  # not reaped yet, so the process id cannot be reused
            try:
                os.killpg(self.main, number)
            except ProcessLookupError:  # the program has not called setsid yet
                os.kill(self.main, number)

    def _kill(self) -> None:
        """Kill every child. Their own children then become children of this process, and the next call kills them."""
        self.killing = True
        if self.status is None:
            self._pass_on(signal.SIGKILL)
        for pid in _children():
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def _ending(self, problem: str) -> dict[str, object]:
        assert self.status is not None
        if said := os.read(self.ended, 4):  # process 1 of the namespace reports the program's status
            self.status = int.from_bytes(said, "little")
        number = os.WTERMSIG(self.status) if os.WIFSIGNALED(self.status) else 0
        code = 128 + number if number else os.WEXITSTATUS(self.status)
        # As in containerd, the reason is OOMKilled even if the kernel killed only a child, and the program failed
        # afterwards.
        oom = code != 0 and any(_oom_kills(path) for path in self.spec["oom_files"])
        reason = "StartError" if problem else "OOMKilled" if oom else ""
        ending = {"exit_code": code, "signal": number, "finished_s": time.time(), "reason": reason, "message": problem}
        ending |= {"memory_limit_bytes": self.spec.get("memory_limit_bytes", 0)}
        return ending | {"peak_memory_bytes": _peak(self.spec.get("peak_files", ()))}


def separate_processes(spec: ShimSpec) -> None:
    """Make future child processes enter a new PID namespace, or the PID namespace of another container. This process
    stays in its own PID namespace. Raises SyscallRefused."""
    if (target := spec.get("processes_of")) is not None:
        join_processes(target["pid"], target["start"], user_namespace=bool(spec.get("user_namespace")))
        return
    if spec.get("user_namespace"):
        root = spec["root"]
        assert root is not None  # a confined program never needs a user namespace, because the agent runs as root
        enter_user_namespace(root.get("user_id", 0), root.get("group_id", 0))
    call("separating processes", libc.unshare(CLONE_NEWPID))


def _readable(source: int) -> bool:
    return bool(select.select([source], [], [], 0)[0])


def _children() -> list[int]:
    me = os.getpid()
    try:
        with open(f"/proc/{me}/task/{me}/children") as file:
            return [int(pid) for pid in file.read().split()]
    except FileNotFoundError:  # the kernel has no CONFIG_PROC_CHILDREN
        return [pid for pid in map(int, filter(str.isdigit, os.listdir("/proc"))) if _parent(pid) == me]


def _parent(pid: int) -> int:
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return int(file.read().rpartition(b")")[2].split()[1])
    except OSError:
        return 0


def _peak(paths: Sequence[str]) -> int:
    """Return the peak memory of the group in bytes; 0 if the kernel does not report it."""
    for path in paths:
        with suppress(OSError, ValueError), open(path) as file:
            return int(file.read())
    return 0


def _oom_kills(path: str) -> int:
    """Return the counter `oom_kill` of memory.events (v2) or memory.oom_control (v1)."""
    try:
        with open(path) as file:
            return sum(int(line.split()[1]) for line in file if line.startswith("oom_kill "))
    except OSError:
        return 0


def probe(source: str, target: str, user_namespace: bool) -> str:
    """Return "" if this process can have its own mounts and host name, otherwise the reason why it cannot."""
    mounted: ShimMount = {"source": source, "target": target, "read_only": False}
    try:
        isolate({"mounts": [mounted], "host_name": "probe", "user_namespace": user_namespace})
    except (SyscallRefused, OSError) as error:
        return str(error)
    return ""


def probe_confined(folder: str) -> str:
    """Return "" if this process can make mounts for another user by file descriptors only, otherwise the reason why it
    cannot."""
    spec: ShimSpec = {"mounts": [{"source": folder, "target": "/", "read_only": True}], "confined": True}
    spec |= {"user": _NOBODY, "group": _NOBODY, "groups": [_NOBODY]}
    try:
        isolate(spec)
    except (SyscallRefused, OSError) as error:
        return str(error)
    return ""


def probe_root(root: ShimRoot, user_namespace: bool) -> str:
    """Return "" if this process can give a program its own root directory, otherwise the reason why it cannot."""
    spec: ShimSpec = {"root": root, "mounts": [], "host_name": "probe", "user_namespace": user_namespace}
    try:
        separate_processes(spec)
        told, tell = os.pipe()
        if os.fork() == 0:  # /proc can be mounted only if the PID namespace has a process 1
            try:
                isolate(spec)
            except BaseException as error:  # report any error to the parent, and end this child process
                os.write(tell, str(error).encode())
            os._exit(0)
        os.close(tell)
        with os.fdopen(told) as file:
            return file.read()
    except (SyscallRefused, OSError) as error:
        return str(error)


def main(words: list[str]) -> None:
    """Run the action that `words` names in this process: fork supervisors, run a probe, or enter a container."""
    match words:
        case ["--serve"]:
            serve()
        case ["--probe", source, target]:
            _answer(probe(source, target, os.geteuid() != 0))
        case ["--probe-confined", folder]:
            _answer(probe_confined(folder))
        case ["--probe-root", root]:
            _answer(probe_root(json.loads(root), os.geteuid() != 0))
        case ["--enter", handle]:
            with os.fdopen(int(handle), "rb") as file:
                spec = json.load(file)
            enter(spec)
    os._exit(0)


def _answer(text: str) -> None:
    sys.stdout.write(text)
    sys.stdout.flush()


def serve() -> None:
    """Fork a supervisor for each STEM that comes over the socket at descriptor 0, until its other end is closed.

    Each STEM comes with a file descriptor. The supervisor closes the descriptor when the start of the container or its
    failure is recorded."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the kernel reaps supervisors that end
    channel = socket.socket(fileno=0)
    gc.collect()
    gc.freeze()  # so that the garbage collector of a supervisor skips imported modules
    while True:
        message, handles, _, _ = socket.recv_fds(channel, _STEM_BYTES, 1)
        if not message:
            return
        with suppress(OSError):  # if no process can be created, the agent notices that the container was not started
            if os.fork() == 0:
                _begin(message.decode(errors="surrogateescape"), handles[0])
        for handle in handles:
            os.close(handle)


def _begin(stem: str, started: int) -> NoReturn:
    """Become a supervisor: begin a new session, and close the socket of the parent process."""
    try:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        os.setsid()
        os.dup2(1, 0)
        os.set_inheritable(started, False)
        supervise(stem, started)
    finally:
        os._exit(0)


def supervise(stem: str, started: int) -> None:
    """Run the container of this stem to its end, unless another supervisor runs it or has run it."""
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
    try:
        Shim(stem, spec).run(started)
    except BaseException as error:
        ending = {"exit_code": START_FAILED, "signal": 0, "finished_s": time.time()}
        write_whole(stem + ".exit.json", ending | {"reason": "StartError", "message": f"supervisor: {error!r}"})
        raise
