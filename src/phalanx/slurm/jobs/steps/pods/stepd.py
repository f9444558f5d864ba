"""The step daemon of a pod. It starts the tasks of steps for srun, and passes signals to the batch script.

    python -m phalanx.slurm.jobs.steps.pods.stepd batch in the pod of a batch script; the script's launcher starts it
    python -m phalanx.slurm.jobs.steps.pods.stepd hold in a pod without a batch script, until the allocation ends

The daemon listens on the pod's address and accepts clients that know the job's key (`channel`). The daemon reads the
address and the key from environment variables. The daemon forwards the output of tasks at once, and kills the tasks of
a step whose srun has disconnected. An allocation of salloc or srun ends when the command disconnects. If the command
does not connect within `HELD_WITHIN_S` seconds, the command was killed before its job began, and the allocation ends as
well.
"""

from __future__ import annotations

import fcntl
import json
import os
import pty
import re
import resource
import shlex
import signal
import socket
import struct
import subprocess
import sys
import termios
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from phalanx.slurm.jobs.steps import around_task
from phalanx.slurm.jobs.steps.layout import gpus_of_task
from phalanx.slurm.jobs.steps.pods import channel
from phalanx.slurm.jobs.steps.pods.channel import Broken, Channel
from phalanx.slurm.jobs.steps.records import MemoryKills

_TASK = struct.Struct("!I")
_GRACE_S = 2.0
HELD_WITHIN_S = 60.0  # a salloc that still runs connects within a second after the start of its job


def main(words: list[str]) -> int:
    """Run the daemon until the allocation ends, and return the exit code of the allocation. `words`: `batch` or `hold`.
    The exit code of a batch job is the exit code of its script instead."""
    key, address = os.environ.pop("PHALANX_STEP_KEY"), os.environ.get("PHALANX_POD_IP") or "127.0.0.1"
    warning, limit_s = os.environ.pop("PHALANX_WARNING", ""), os.environ.get("PHALANX_LIMIT_S", "")
    held = os.environ.pop("PHALANX_HELD", "") and os.environ.get("JOB_COMPLETION_INDEX", "0") == "0"
    daemon = _Daemon(key, os.getppid() if words[0] == "batch" else None)
    signal.signal(signal.SIGTERM, lambda *_: daemon.end(143))
    with socket.socket() as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((address, channel.PORT))
        listener.listen(64)
        if warning and limit_s:
            number, before_s, what = warning.split()
            said = {"signal": int(number), "what": what}
            timer = threading.Timer(max(0.0, float(limit_s) - float(before_s)), daemon.signal, (said,))
            timer.daemon = True
            timer.start()
        threading.Thread(target=daemon.serve, args=(listener,), daemon=True).start()
        if held:
            threading.Thread(target=daemon.expect_holder, args=(HELD_WITHIN_S,), daemon=True).start()
        if os.environ.get("PHALANX_POD_NAME"):
            from phalanx.slurm.jobs.steps.pods.told import tell

            threading.Thread(target=tell, daemon=True).start()
        if first := os.environ.pop("PHALANX_FOLLOWS", ""):
            from phalanx.slurm.jobs.steps.pods.follower import follow

            threading.Thread(target=follow, args=(int(first), daemon.end), daemon=True).start()
        return daemon.wait()


class _Daemon:
    def __init__(self, key: str, launcher: int | None) -> None:
        self._key, self._launcher = key, launcher
        self._steps: set[_Step] = set()
        self._over, self._held = threading.Event(), threading.Event()
        self._code = 0

    def serve(self, listener: socket.socket) -> None:
        while True:
            connection, _ = listener.accept()
            threading.Thread(target=self._talk, args=(connection,), daemon=True).start()

    def wait(self) -> int:
        while not self._over.wait(1.0):
            if self._launcher is not None and os.getppid() != self._launcher:
                break  # the launcher of the script has ended, so this process has another parent
        self._end_steps()
        return self._code

    def end(self, code: int) -> None:
        self._code = code
        self._over.set()

    def expect_holder(self, within_s: float) -> None:
        """End the allocation if its salloc or srun has not connected within `within_s` seconds."""
        if not self._held.wait(within_s):
            sys.stderr.write(
                f"phalanx step daemon: no salloc or srun connected to this allocation within {within_s:.0f} s\n"
            )
            self.end(0)

    def _end_steps(self) -> None:
        """Send SIGTERM to all tasks, and SIGKILL to tasks that have not ended after `_GRACE_S` seconds."""
        steps = list(self._steps)
        for step in steps:
            step.cancelled()
        until_s = time.monotonic() + _GRACE_S
        for step in steps:
            step.over.wait(max(0.0, until_s - time.monotonic()))
            step.signal(signal.SIGKILL)

    def _talk(self, connection: socket.socket) -> None:
        try:
            link = Channel(connection, self._key, server=True)
            kind, content = link.receive()
            if kind == channel.RUN:
                self._run(link, json.loads(content))
            elif kind == channel.SIGNAL:
                self.signal(json.loads(content))
                link.send(channel.DONE)
            elif kind == channel.FINISH:
                self.end(int(content))
                link.send(channel.DONE)
            elif kind == channel.HOLD:
                self._hold(link)
            elif kind == channel.STAY:
                link.send(channel.DONE)
                link.receive()
            link.close()
        except (Broken, OSError, ValueError, KeyError) as error:
            sys.stderr.write(f"phalanx step daemon: {error}\n")

    def _hold(self, link: Channel) -> None:
        """Keep the allocation until its salloc or srun sends an exit code or disconnects. Then end the allocation."""
        self._held.set()
        link.send(channel.DONE)
        try:
            kind, content = link.receive()
        except Broken:
            kind, content = channel.FINISH, b"0"
        if kind == channel.FINISH:
            self.end(int(content))

    def _run(self, link: Channel, asked: dict[str, object]) -> None:
        step = _Step(link, asked)
        self._steps.add(step)
        try:
            step.run()
        finally:
            self._steps.discard(step)

    def signal(self, asked: dict[str, Any]) -> None:
        """Send a signal to processes of the job in this pod. `asked`: the field `signal` has the number, and the field
        `what` names the processes: `steps`, `batch` (only the script), `all`, or `launcher`."""
        number, what = int(asked["signal"]), asked.get("what", "all")
        if what == "launcher":
            if self._launcher is not None:
                os.kill(self._launcher, number)
            return
        if what != "batch":
            for step in list(self._steps):
                step.signal(number)
        if what == "steps" and self._launcher is not None:
            self._to_local_steps(number)
        if what != "steps" and self._launcher is not None:
            self._to_script(number, all_of_it=what == "all")

    def _to_local_steps(self, number: int) -> None:
        """Send the signal to the tasks that the script's own srun processes started in this pod without a daemon."""
        for pid in _below(self._launcher or 0):
            if _name(pid) == "srun":
                for task in _children(pid):
                    with suppress(ProcessLookupError):
                        os.kill(task, number)

    def _to_script(self, number: int, *, all_of_it: bool) -> None:
        """Send the signal to the children of the launcher, except this process. `all_of_it`: True to send the signal to
        all their descendants as well."""
        assert self._launcher is not None
        waiting = [pid for pid in _children(self._launcher) if pid != os.getpid()]
        while waiting:
            pid = waiting.pop()
            if all_of_it:
                waiting += _children(pid)
            try:
                os.kill(pid, number)
            except ProcessLookupError:
                continue


def _below(pid: int) -> list[int]:
    found, waiting = [], [pid]
    while waiting:
        below = _children(waiting.pop())
        found += below
        waiting += below
    return found


def _name(pid: int) -> str:
    """Return `srun` if the process runs srun, as a program or as the script of an interpreter; otherwise return ""."""
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            words = file.read().split(b"\0")
    except OSError:
        return ""
    if os.path.basename(words[0]).startswith(b"ld-"):  # in a bundle (`bundle`) the command line begins with the loader
        del words[:3]
    return next((name for word in words[:3] if (name := os.path.basename(word).decode(errors="replace")) == "srun"), "")


def _children(pid: int) -> list[int]:
    """Return the process ids of the children of process `pid`. The function reads the file /proc/PID/stat (proc(5)) of
    every process, because some kernels do not list the children of a process."""
    found = []
    for name in os.listdir("/proc"):
        if name.isdecimal():
            with suppress(OSError, IndexError), open(f"/proc/{name}/stat") as file:
                if int(file.read().rpartition(")")[2].split()[1]) == pid:
                    found.append(int(name))
    return found


class _Step:
    """The tasks of one step in this pod. `link`: the connection to srun. `asked`: the message with which srun requested
    the step."""

    def __init__(self, link: Channel, asked: dict[str, Any]) -> None:
        self._link, self._asked, self._memory = link, asked, MemoryKills()
        self._tasks: dict[int, subprocess.Popen[bytes]] = {}
        self._readers: list[threading.Thread] = []
        self._terminal: int | None = None
        self.over = threading.Event()

    def run(self) -> None:
        node, tasks = os.environ.get("SLURMD_NODENAME", ""), len(self._asked["tasks"])
        self._asked["directory"], complaint = around_task.directory_of(self._asked["directory"], node, tasks)
        if complaint := complaint + around_task.make_tmpdir(self._asked["environment"], node):
            self._tell(channel.STDERR, _TASK.pack(0xFFFFFFFF) + complaint)
        for task, own in self._asked["tasks"]:
            self._start(int(task), own)
        threading.Thread(target=self._listen, daemon=True).start()
        waiting = [threading.Thread(target=self._wait, args=one, daemon=True) for one in self._tasks.items()]
        for thread in waiting:
            thread.start()
        for thread in (*waiting, *self._readers):
            thread.join()
        self.over.set()
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        said = {"cpu_s": used.ru_utime + used.ru_stime, "peak_kib": used.ru_maxrss}
        self._tell(channel.DONE, json.dumps(said).encode())

    def signal(self, number: int) -> None:
        for process in self._tasks.values():
            if process.returncode is None:
                try:
                    os.killpg(process.pid, number)
                except ProcessLookupError:
                    continue

    def cancelled(self) -> None:
        """Write Slurm's notice of the cancellation to srun's standard error, and send SIGTERM to the tasks."""
        node, name = os.environ.get("SLURMD_NODENAME", ""), self._asked["name"]
        when = time.strftime("%Y-%m-%dT%H:%M:%S")
        text = f"slurmstepd-{node}: error: *** STEP {name} ON {node} CANCELLED AT {when} ***\n"
        self._tell(channel.STDERR, _TASK.pack(0xFFFFFFFF) + text.encode())
        self.signal(signal.SIGTERM)

    def _tell(self, kind: bytes, content: bytes) -> None:
        try:
            self._link.send(kind, content)
        except OSError:
            self.signal(signal.SIGKILL)

    def _start(self, task: int, own: dict[str, str]) -> None:
        asked = self._asked
        around = {**asked["environment"], **own}
        around |= _devices(around)
        interactive, streams = bool(asked.get("pty")) and task == 0, asked["streams"][str(task)]
        # A shell sets SLURM_TASK_PID, because the process id is known only in the new process. `exec` does not change
        # the id.
        program = asked["commands"][str(task)]
        command = ["/bin/sh", "-c", 'SLURM_TASK_PID=$$ exec "$@"', "sh", *program]
        node = os.environ.get("SLURMD_NODENAME", "")
        try:
            path = around_task.find_program(program[0], around, asked["directory"])
            command[4] = path
            if prolog := asked.get("prolog"):
                command[4:4] = [*_python(), "-I", "-m", around_task.__name__, prolog]
            if interactive:
                self._terminal, inner = pty.openpty()
                self._resize(asked["pty"])
                files = (inner, inner, inner)
            else:
                files = (_stdin(streams[0]), _output(streams[1]), _output(streams[2]))
            process = subprocess.Popen(
                command, stdin=files[0], stdout=files[1], stderr=files[2], env=around, cwd=asked["directory"],
                start_new_session=True, preexec_fn=_take_terminal if interactive else None,  # noqa: PLW1509 - one ioctl(2)
                umask=_umask(around),
            )  # fmt: skip
        except OSError as error:
            self._tell(channel.ENDED, json.dumps([task, 2]).encode())
            named = os.path.join(asked["directory"], program[0]) if "/" in program[0] else program[0]
            text = f"slurmstepd-{node}: error: execve(): {named}: {error.strerror}\n"
            self._tell(channel.STDERR, _TASK.pack(task) + text.encode())
            return
        for file in set(files):
            if isinstance(file, int) and file >= 0:
                os.close(file)
        self._tasks[task] = process
        if self._terminal is not None and interactive:
            self._read(channel.STDOUT, task, self._terminal)
        for kind, stream in ((channel.STDOUT, process.stdout), (channel.STDERR, process.stderr)):
            if stream is not None:
                self._read(kind, task, stream.fileno())

    def _read(self, kind: bytes, task: int, file: int) -> None:
        thread = threading.Thread(target=self._pump, args=(kind, task, file), daemon=True)
        thread.start()
        self._readers.append(thread)

    def _pump(self, kind: bytes, task: int, file: int) -> None:
        while True:
            try:
                part = os.read(file, 1 << 16)
            except OSError:  # a read from the terminal fails when the last process has closed the terminal
                return
            if not part:
                return
            self._tell(kind, _TASK.pack(task) + part)

    def _wait(self, task: int, process: subprocess.Popen[bytes]) -> None:
        code = self._memory.told(process.wait())
        if epilog := self._asked.get("epilog"):
            around = {**self._asked["environment"], **dict(self._asked["tasks"])[task]}
            node = os.environ.get("SLURMD_NODENAME", "")
            if said := around_task.run_epilog(epilog, around, self._asked["directory"], node):
                self._tell(channel.STDERR, _TASK.pack(task) + said)
        self._tell(channel.ENDED, json.dumps([task, code]).encode())

    def _listen(self) -> None:
        """Handle the frames (messages) from srun while the tasks run. If srun disconnects, kill the tasks."""
        try:
            while True:
                kind, content = self._link.receive()
                if kind == channel.SIGNAL:
                    self.signal(int(content))
                elif kind == channel.WINDOW:
                    self._resize(json.loads(content))
                elif kind == channel.STDIN:
                    self._feed(_TASK.unpack(content[:4])[0], content[4:])
        except (Broken, OSError, ValueError):
            if not self.over.is_set():
                self.signal(signal.SIGKILL)

    def _feed(self, task: int, content: bytes) -> None:
        """Write input from srun to the standard input of the task. `task`: the task number; 0xFFFFFFFF for all tasks.
        Empty `content` means that the input has ended."""
        if self._terminal is not None:
            if content:
                os.write(self._terminal, content)
            return
        for number, process in self._tasks.items():
            if process.stdin is None or task not in (number, 0xFFFFFFFF):
                continue
            try:
                if content:
                    process.stdin.write(content)
                    process.stdin.flush()
                else:
                    process.stdin.close()
            except (BrokenPipeError, ValueError):
                continue

    def _resize(self, size: list[int]) -> None:
        if self._terminal is not None:
            fcntl.ioctl(self._terminal, termios.TIOCSWINSZ, struct.pack("HHHH", size[0], size[1], 0, 0))


def _python() -> list[str]:
    """Return the command that starts the Python interpreter. In a bundle this is not `sys.executable`."""
    return shlex.split(os.environ.get("PHALANX_PYTHON", ""))[:1] or [sys.executable]


def _devices(around: dict[str, str]) -> dict[str, str]:
    """Return the environment variables that name the GPUs of the pod or of one task. `around`: the variables of the
    task."""
    given = os.environ.get("CUDA_VISIBLE_DEVICES")
    if not given:
        return {}
    count = str(len(given.split(",")))
    names = ("CUDA_VISIBLE_DEVICES", "GPU_DEVICE_ORDINAL", "SLURM_STEP_GPUS")
    own = gpus_of_task(given, around, int(around.get("SLURM_LOCALID") or 0))
    return {**dict.fromkeys(names, given), "SLURM_GPUS_ON_NODE": count, **own}


def _umask(around: Mapping[str, str]) -> int:
    """Return the umask that the tasks inherit from srun; -1 if it is unknown; the tasks then have the umask of this
    process."""
    text = around.get("SLURM_UMASK", "")
    return int(text, 8) & 0o777 if re.fullmatch("[0-7]{1,4}", text) else -1


def _take_terminal() -> None:
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


def _stdin(said: str | None) -> int:
    """Open the file for a task's standard input, and return its descriptor. `said`: the path; None if srun sends the
    input."""
    return subprocess.PIPE if said is None else os.open(said, os.O_RDONLY | os.O_CLOEXEC)


def _output(said: list[Any] | None) -> int:
    """Open the file for an output stream of a task, and return its descriptor. `said`: the path, and True to append to
    the file; None if the output is sent to srun."""
    if said is None:
        return subprocess.PIPE
    how = os.O_APPEND if said[1] else os.O_TRUNC
    return os.open(said[0], os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | how, 0o666)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
