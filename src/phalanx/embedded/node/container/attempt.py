"""Read the state of one attempt (one start of a container) from its files: planned, running, or ended.

The shim, the parent process of the container's program, writes the files (see `shim`), and this module reads them for
the agent. The files show the right state after any crash of the shim or the agent. If there is no run record and no
process holds the lock, no program was started. If there is a run record but no exit record, and no process holds the
lock, the shim was killed, and the kernel killed the program with it.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
import signal
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import msgspec

from phalanx.embedded.node.container.durable import write_whole
from phalanx.embedded.node.container.shim.fork_server import launch
from phalanx.embedded.node.container.shim.record import boot_id, start_ticks

# The reasons that `settle` records if the shim of an attempt was killed.
LOST, REBOOT, NEVER_STARTED = "ContainerStatusUnknown", "NodeReboot", "NeverStarted"
_LOST = "The supervisor of this container was killed, and the container with it."
_REBOOT = "The machine was rebooted while this container ran."
_NEVER = "The node agent was killed before this container was started."


@dataclass(frozen=True, slots=True, kw_only=True)
class Mount:
    """A mount. The container sees the file or directory `source` of the machine at the path `target`. If `below` is
    set, the container sees the path `below` inside `source` instead. `by_user`: True if the pod's user named the
    source. `kind`: the required type of the source, as in hostPath; "" for any. `no_links`: True if the path of the
    source may contain no symbolic link. `kind` and `no_links` apply only to confined programs."""

    source: str
    target: str
    read_only: bool = False
    below: str = ""
    by_user: bool = False
    kind: str = ""
    no_links: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Root:
    """The files of an image as a container's root. `layers`: directories, the uppermost first; the container writes
    into `upper`. Without layers, the container has its own directory `stage` with all files. `user`: the user of the
    image, `USER[:GROUP]`. `user_id`, `group_id`: the uid and gid of this user in a user namespace. `devices`: device
    files, each with its path in the container's /dev."""

    stage: str
    layers: tuple[str, ...] = ()
    upper: str = ""
    work: str = ""
    user: str = ""
    user_id: int = 0
    group_id: int = 0
    read_only: bool = False
    devices: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Process:
    """A process of the machine. `start`: its start time in clock ticks since boot. Another process with the same pid
    has another start time."""

    pid: int
    start: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSpec:
    """The program that the shim runs, and its settings. `root`: the root of an image; None for the root of the machine.
    `capabilities`: the numbers of the capabilities that the program may have; None for all capabilities of its user.
    `no_new_rights`: True if set-user-ID bits have no effect. `cgroup_dirs`: the directories of control groups, which
    are removed after the program has ended. `user`, `group`: the uid and gid; None for those of the agent. `groups`:
    supplementary groups. `confined`: True if the program runs as another user than the agent (see `shim`).
    `processes_of`: the process whose PID namespace the program joins; None for a new PID namespace if the program is
    confined or has a root. `host_name`: the host name; "" for that of the machine. `user_namespace`: True if mounts and
    host names need a user namespace."""

    argv: tuple[str, ...]
    env: Mapping[str, str]
    cwd: str = "/"
    mounts: tuple[Mount, ...] = ()
    host_name: str = ""
    user_namespace: bool = False
    cgroup_procs: tuple[str, ...] = ()
    cgroup_dirs: tuple[str, ...] = ()
    oom_files: tuple[str, ...] = ()
    peak_files: tuple[str, ...] = ()
    cpus_file: str = ""
    user: int | None = None
    group: int | None = None
    groups: tuple[int, ...] = ()
    confined: bool = False
    processes_of: Process | None = None
    root: Root | None = None
    capabilities: tuple[int, ...] | None = None
    no_new_rights: bool = False
    image_id: str = ""
    memory_limit_bytes: int = 0  # the memory limit; 0: none
    # the value of oom_score_adj (proc(5)). If memory runs out, the kernel kills the process with the highest score
    # first
    oom_score: int = 0
    stdin: bool = False
    stdin_once: bool = False  # True if the input ends when the first attached client disconnects
    tty: bool = False
    hash: str = ""  # a hash of the container's spec; it shows whether the spec has changed

    @property
    def own_processes(self) -> bool:
        """Return True if the program has its own PID namespace, in which it does not see the machine's processes."""
        return self.confined or self.root is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class Planned:
    """The state of an attempt for which the files show no start yet."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningAttempt:
    shim_pid: int
    # the start time of the shim in clock ticks since boot; another process with the same pid has another start time
    shim_start: int
    pid: int
    pid_start: int
    started_s: float
    boot_id: str = ""  # the id of the boot of the machine during which the attempt began; "": unknown


@dataclass(frozen=True, slots=True, kw_only=True)
class Exited:
    """The recorded end of an attempt. `told`: the reason why the node stopped the attempt; "" if the node did not stop
    it. `log_end`: the last lines of the log. `peak_memory_bytes`: the peak memory of the container; 0: unknown.
    `memory_limit_bytes`: the memory limit that was set for this container; 0 if none was set."""

    exit_code: int
    signal: int = 0
    started_s: float
    finished_s: float
    reason: str = ""  # the reason for the end; "" stands for Completed or Error, depending on the exit code
    message: str = ""
    told: str = ""
    log_end: str = ""
    peak_memory_bytes: int = 0
    memory_limit_bytes: int = 0


State = Planned | RunningAttempt | Exited


class _Ending(msgspec.Struct, frozen=True):
    exit_code: int
    signal: int
    finished_s: float
    reason: str
    message: str
    peak_memory_bytes: int = 0
    memory_limit_bytes: int = 0


@dataclass(frozen=True, slots=True)
class Attempt:
    """A start of a container. `folder`: the directory of the container. `number`: the restartCount of the container."""

    folder: Path
    number: int

    def path(self, suffix: str) -> Path:
        return self.folder / f"{self.number}.{suffix}"

    @property
    def log(self) -> Path:
        return self.path("log")

    @property
    def spec(self) -> RunSpec:
        return msgspec.json.decode(self.path("spec.json").read_bytes(), type=RunSpec)

    def state(self) -> State:
        try:
            ending = msgspec.json.decode(self.path("exit.json").read_bytes(), type=_Ending)
        except FileNotFoundError:
            return self._record() or Planned()
        record = self._record()
        return Exited(
            exit_code=ending.exit_code,
            signal=ending.signal,
            started_s=record.started_s if record else ending.finished_s,
            finished_s=ending.finished_s,
            reason=ending.reason,
            message=ending.message,
            told=self._told(),
            peak_memory_bytes=ending.peak_memory_bytes,
            memory_limit_bytes=ending.memory_limit_bytes,
        )

    def _told(self) -> str:
        try:
            return self.path("told").read_text()
        except FileNotFoundError:
            return ""

    def _record(self) -> RunningAttempt | None:
        try:
            return msgspec.json.decode(self.path("run.json").read_bytes(), type=RunningAttempt)
        except FileNotFoundError:
            return None

    # --- actions ----------------------------------------------------------------------------------------------------

    async def start(self, spec: RunSpec) -> State:
        """Start the program, and return the state once the start or its failure is recorded."""
        await asyncio.to_thread(self._write_spec, spec)
        await launch(str(self.folder / str(self.number)))
        return self.settle()

    def _write_spec(self, spec: RunSpec) -> None:
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_whole(self.path("spec.json"), msgspec.json.encode(spec))

    def settle(self) -> State:
        """Return the present state. If the shim was killed, record the end of the attempt."""
        state = self.state()
        if isinstance(state, Exited) or (lock := self._lock()) is None:
            return state
        try:
            # read the state again, because the shim may have written its exit record in the meantime
            state = self.state()
            if isinstance(state, Exited):
                return state
            if isinstance(state, RunningAttempt):
                _kill_left_over(state)
            write_whole(self.path("exit.json"), msgspec.json.encode(_lost(state)))
            return self.state()
        finally:
            os.close(lock)

    def note(self, why: str) -> None:
        """Record the reason for stopping the program, before it is stopped. Raises OSError."""
        write_whole(self.path("told"), why.encode())

    def terminate(self) -> None:
        """Send SIGTERM to the program's process group."""
        self._tell(signal.SIGTERM)

    def kill(self) -> None:
        """Kill the program and all its descendants by SIGKILL."""
        self._tell(signal.SIGUSR1)

    async def ended(self) -> None:
        """Wait until the shim has ended. Its exit record is then on disk, unless the shim was killed."""
        state = self.state()
        if not isinstance(state, RunningAttempt) or (handle := _open(state)) is None:
            return
        loop, gone = asyncio.get_running_loop(), asyncio.Event()
        try:
            loop.add_reader(handle, gone.set)
            await gone.wait()
        finally:
            loop.remove_reader(handle)
            os.close(handle)

    def _tell(self, number: int) -> None:
        state = self.state()
        if isinstance(state, RunningAttempt) and (handle := _open(state)) is not None:
            with suppress(ProcessLookupError):
                signal.pidfd_send_signal(handle, number)
            os.close(handle)

    def _lock(self) -> int | None:
        """Return a file descriptor with the lock of the attempt; None while a shim holds the lock."""
        handle = os.open(self.path("lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(handle)
            return None
        return handle


def _lost(state: RunningAttempt | Planned) -> dict[str, object]:
    """Return an exit record, with the known facts, for a container whose shim has ended without writing an exit
    record."""
    match state:
        case Planned():
            code, reason, message = 128, NEVER_STARTED, _NEVER
        case RunningAttempt(boot_id=boot) if boot and boot != boot_id():
            code, reason, message = 137, REBOOT, _REBOOT
        case RunningAttempt():
            code, reason, message = 137, LOST, _LOST
    return {"exit_code": code, "signal": 0, "finished_s": time.time(), "reason": reason, "message": message}


def _open(state: RunningAttempt) -> int | None:
    """Return a handle on the shim (pidfd_open(2)); None if the shim has ended, because its process id may then belong
    to another process."""
    try:
        handle = os.pidfd_open(state.shim_pid)
    except ProcessLookupError:
        return None
    if _is(state.shim_pid, state.shim_start):
        return handle
    os.close(handle)
    return None


def _is(pid: int, start: int) -> bool:
    try:
        return start_ticks(pid) == start
    except (OSError, IndexError):
        return False


def _kill_left_over(state: RunningAttempt) -> None:
    if state.boot_id in ("", boot_id()) and _is(state.pid, state.pid_start):
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(state.pid, signal.SIGKILL)


def attempts(folder: Path) -> list[Attempt]:
    """Return all attempts of a container that are still on disk, oldest first."""
    numbers = sorted(int(path.name.split(".")[0]) for path in folder.glob("*.spec.json"))
    return [Attempt(folder, number) for number in numbers]
