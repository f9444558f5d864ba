"""Run the tasks of a step as processes in this pod. Each task has environment variables of its own. With --label, each
line of output begins with the number of its task.

Without --label and without output files, tasks inherit the standard output and error of srun, such as a terminal. The
standard input of srun is copied to all tasks; a single task inherits it.

The module also prints srun's messages about failed tasks. Tasks of one node that end in the same way within 0.03
seconds share one message.

A signal to srun has the effect on the step that srun(1) describes under "Signals":

- After the first SIGINT, srun only prints that a second SIGINT within a second will end the step. After the second
  SIGINT, srun sends SIGINT to the tasks, then SIGCONT and SIGTERM, and SIGKILL after KillWait. After the third SIGINT
  srun sends SIGKILL at once.
- If srun runs outside the pods of its job, SIGTERM, SIGHUP and SIGQUIT mean that the terminal or the client has ended:
  srun kills the tasks at once. Inside a pod, these signals may also come from scancel or from the time limit: srun
  sends the signal to the tasks, and SIGKILL after KillWait.
- SIGUSR1 and SIGUSR2 are sent to the tasks. If srun was started by `nohup`, it ignores SIGHUP."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from types import FrameType
from typing import IO

from phalanx.slurm.jobs.steps.around_task import directory_of, find_program, make_tmpdir, run_epilog, run_prolog
from phalanx.slurm.jobs.steps.records import OUT_OF_MEMORY, MemoryKills
from phalanx.slurm.notation.arrays import shown

_TOGETHER_S = 0.03


class Report:
    """The collected failures of tasks, and the printer of srun's messages about them. Several threads may call
    `ended`."""

    def __init__(self, step: str, *, kill_on_bad_exit: bool = False) -> None:
        """`step`: the id of the step, such as `12.0`. `kill_on_bad_exit`: True if a failed task ends all other
        tasks."""
        self._lock, self._kill, self._step = threading.Lock(), kill_on_bad_exit, step
        self._waiting: dict[tuple[str, int], list[int]] = {}
        self._timer: threading.Timer | None = None

    def ended(self, node: str, task: int, code: int) -> bool:
        """Record the end of a task. A failure is printed within 0.03 seconds. Return True if the caller must end the
        other tasks. `code`: the result of `os.waitstatus_to_exitcode`."""
        if not code:
            return False
        with self._lock:
            first = not self._waiting
            self._waiting.setdefault((node, code), []).append(task)
            if first:
                self._timer = threading.Timer(_TOGETHER_S, self.finish)
                self._timer.daemon = True
                self._timer.start()
        kill, self._kill = self._kill, False
        return kill

    def finish(self) -> None:
        """Print the messages about the failures that were collected and not printed yet."""
        with self._lock:
            waiting, self._waiting = self._waiting, {}
            for (node, code), tasks in waiting.items():
                what = f"Exited with exit code {code}" if code > 0 else _signal(-code)
                who = f"task {tasks[0]}" if len(tasks) == 1 else f"tasks {shown(tasks).strip('[]')}"
                sys.stderr.write(f"srun: error: {node}: {who}: {what}\n")
                if code < 0 and self._step:  # this line is printed only once
                    sys.stderr.write(f"srun: Force Terminated StepId={self._step}\n")
                    self._step = ""
            sys.stderr.flush()


def _signal(number: int) -> str | None:
    return "Out Of Memory" if number == OUT_OF_MEMORY else signal.strsignal(number)


def highest(codes: dict[int, int]) -> tuple[int, int]:
    """Return (exit code, signal) of the task with the highest code. For this comparison, a signal counts as 128 plus
    its number. `codes`: task -> the result of `os.waitstatus_to_exitcode`."""
    worst = max(codes.values(), key=lambda code: code if code >= 0 else 128 - code, default=0)
    return (worst, 0) if worst >= 0 else (0, -worst)


_WITHIN_S = 1.0  # two SIGINT within this time end the step
_KILL_WAIT_S = 30.0
_PASSED_ON = (signal.SIGUSR1, signal.SIGUSR2)
_ENDING = (signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)
HANDLED = (signal.SIGINT, *_ENDING, *_PASSED_ON)

Send = Callable[[int], None]


class _Interrupts:
    """The state of the signal handlers of one step. `send`: a function that sends a signal to all tasks."""

    def __init__(self, send: Send, kill_wait_s: float) -> None:
        self._send, self._kill_wait_s = send, kill_wait_s
        self._pressed_s = float("-inf")
        self._is_aborting = False
        self.over = threading.Event()

    def interrupt(self, number: int, frame: FrameType | None) -> None:
        now_s = time.monotonic()
        if self._is_aborting:
            self.force(number, frame)
        elif now_s - self._pressed_s > _WITHIN_S:
            self._pressed_s = now_s
            _say("interrupt (one more within 1 sec to abort)")
        else:
            self._is_aborting = True
            _say("sending Ctrl-C to StepId")
            self._send(signal.SIGINT)
            self._later(_WITHIN_S, signal.SIGCONT, signal.SIGTERM)
            self._later(_WITHIN_S + self._kill_wait_s, signal.SIGKILL)

    def force(self, number: int, frame: FrameType | None) -> None:
        _say("forcing job termination")
        self._send(signal.SIGKILL)

    def end(self, number: int, frame: FrameType | None) -> None:
        self._send(number)
        self._later(self._kill_wait_s, signal.SIGKILL)

    def pass_on(self, number: int, frame: FrameType | None) -> None:
        self._send(number)

    def _later(self, after_s: float, *numbers: int) -> None:
        """Send these signals after `after_s` seconds, unless the step has ended by then."""

        def wait() -> None:
            if not self.over.wait(after_s):
                for number in numbers:
                    self._send(number)

        threading.Thread(target=wait, daemon=True).start()


@contextmanager
def interruptible(send: Send, kill_wait_s: float = _KILL_WAIT_S) -> Iterator[None]:
    """Install the signal handlers of srun inside the `with` block, in which its step runs. `send`: a function that
    sends a signal to all tasks. `kill_wait_s`: Slurm's KillWait, in seconds."""
    rules = _Interrupts(send, kill_wait_s)
    is_inside = "SLURMD_NODENAME" in os.environ
    handlers = {signal.SIGINT: rules.interrupt}
    handlers |= dict.fromkeys(_ENDING, rules.end if is_inside else rules.force)
    handlers |= dict.fromkeys(_PASSED_ON, rules.pass_on)
    if signal.getsignal(signal.SIGHUP) == signal.SIG_IGN:
        del handlers[signal.SIGHUP]
    previous = {number: signal.signal(number, handler) for number, handler in handlers.items()}
    try:
        yield
    finally:
        rules.over.set()
        for number, before in previous.items():
            signal.signal(number, before)


def _say(text: str) -> None:
    """Write a line directly to the file descriptor of standard error: a signal handler calls this function, and may
    have interrupted a buffered write. Errors are ignored, because the terminal may be closed."""
    try:
        os.write(sys.stderr.fileno(), f"srun: {text}\n".encode())
    except OSError:
        return


_PIECE = 65536


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """A step to run. `command`: a function that returns the command line of a task. `of_task`: the variables of each
    task. `name`: the id of the step, such as `12.0`. `label`: True if output lines begin with the number of the task.
    `source`: a function that takes a task number and returns the file for the task's standard input. `outputs`: such a
    function for standard output and error. Both return None for the streams of srun. `kill_s`: the time in seconds
    after the end of the first task at which the other tasks are killed; None: never. `kill_on_bad_exit`: True if a
    failed task ends all others. `prolog`,
    `epilog`: the programs that run before and after each task; empty: none."""

    command: Callable[[int], Sequence[str]]
    environment: Mapping[str, str]
    of_task: Sequence[Mapping[str, str]]
    directory: str
    node: str
    name: str = ""
    label: bool = False
    source: Callable[[int], str | None] = lambda task: None
    outputs: Callable[[int], tuple[str | None, str | None]] = lambda task: (None, None)
    kill_s: float | None = None
    kill_on_bad_exit: bool = False
    prolog: str = ""
    epilog: str = ""


@dataclass(slots=True)
class _Run:
    pids: dict[int, int] = field(default_factory=dict)  # process id -> task number
    readers: list[threading.Thread] = field(default_factory=list)
    codes: dict[int, int] = field(default_factory=dict)  # task number -> the result of `os.waitstatus_to_exitcode`


def run(step: Step) -> dict[int, int]:
    """Run the step until all tasks have ended. Return the result of `os.waitstatus_to_exitcode` for each task
    number."""
    started, report = _Run(), Report(step.name, kill_on_bad_exit=step.kill_on_bad_exit)
    lock = threading.Lock()
    directory, complaint = directory_of(step.directory, step.node, len(step.of_task))
    environment = dict(step.environment)
    os.write(2, complaint + make_tmpdir(environment, step.node))
    step = replace(step, directory=directory, environment=environment)
    with interruptible(_sender(started, step)):
        count = len(step.of_task)
        inputs = {task: os.pipe() for task in range(count) if step.source(task) is None} if count > 1 else {}
        for task in range(count):
            _start(step, task, started, lock, inputs[task][0] if task in inputs else 0)
        for read_end, _ in inputs.values():
            os.close(read_end)
        if inputs:
            threading.Thread(target=_hand_out, args=([end for _, end in inputs.values()],), daemon=True).start()
        _wait(step, started, report)
    for reader in started.readers:
        reader.join()
    report.finish()
    return started.codes


def _sender(started: _Run, step: Step) -> Callable[[int], None]:
    def send(number: int) -> None:
        if number == signal.SIGTERM and step.name:
            _tell_cancelled(step)
        _end_all(started, number)

    return send


def _tell_cancelled(step: Step) -> None:
    when = time.strftime("%Y-%m-%dT%H:%M:%S")
    text = f"slurmstepd-{step.node}: error: *** STEP {step.name} ON {step.node} CANCELLED AT {when} ***\n"
    os.write(2, text.encode())


def _kill(pid: int, number: int) -> None:
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return


def _hand_out(ends: list[int]) -> None:
    """Copy the standard input of srun to each task, until the input ends or the task closes its standard input. `ends`:
    the write ends of the tasks' pipes."""
    while ends:
        try:
            content = os.read(0, _PIECE)
        except OSError:
            content = b""
        for end in list(ends):
            if not content or not _written(end, content):
                os.close(end)
                ends.remove(end)


def _written(end: int, content: bytes) -> bool:
    """Write the content to a pipe. Return False if the task has closed its end."""
    try:
        while content:
            content = content[os.write(end, content) :]
    except OSError:
        return False
    return True


def _start(step: Step, task: int, started: _Run, lock: threading.Lock, source: int) -> None:
    files = step.outputs(task)
    pipes = [os.pipe() if step.label and file is None else None for file in files]
    sys.stdout.flush()
    # The signals are blocked until the child has its own handlers and the parent knows the child's process id.
    # Otherwise a signal during this time would be lost.
    signal.pthread_sigmask(signal.SIG_BLOCK, HANDLED)
    pid = os.fork()
    if pid == 0:
        _become(step, task, source, files, pipes)
    started.pids[pid] = task
    signal.pthread_sigmask(signal.SIG_UNBLOCK, HANDLED)
    width = len(str(len(step.of_task) - 1))
    for pipe, target in zip(pipes, (sys.stdout, sys.stderr), strict=True):
        if pipe is not None:
            os.close(pipe[1])
            arguments = (os.fdopen(pipe[0], "rb"), target, f"{task:>{width}}: ", lock)
            reader = threading.Thread(target=_label, args=arguments, daemon=True)
            reader.start()
            started.readers.append(reader)


def _label(source: IO[bytes], target: IO[str], label: str, lock: threading.Lock) -> None:
    with source:
        for line in source:
            with lock:
                target.write(label + line.decode(errors="replace") + ("" if line.endswith(b"\n") else "\n"))
                target.flush()


def _become(
    step: Step, task: int, source: int, files: tuple[str | None, str | None], pipes: Sequence[tuple[int, int] | None]
) -> None:
    """Replace the child process by the program of the task. This function never returns."""
    code, command, what = 2, step.command(task), ""
    try:
        for each in HANDLED:
            signal.signal(each, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, HANDLED)
        os.chdir(step.directory)
        if (file := step.source(task)) is not None:
            source = os.open(file, os.O_RDONLY)
        if source:
            os.dup2(source, 0)
        for number, (target, pipe) in enumerate(zip(files, pipes, strict=True), 1):
            if pipe is not None:
                os.dup2(pipe[1], number)
            elif target is not None:
                os.dup2(os.open(target, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o666), number)
        around = {**step.environment, **step.of_task[task], "SLURM_TASK_PID": str(os.getpid())}
        if step.prolog and (failed := run_prolog(step.prolog, around, step.node)):
            os._exit(failed)
        what = f"execve(): {told(command[0], step.directory)}"
        path = find_program(command[0], around, step.directory)
        os.execve(path, list(command), around)  # noqa: S606 (srun runs commands of its user)
    except OSError as error:
        code = error.errno or 2
        text = f"slurmstepd-{step.node}: error: {what or f'could not open {error.filename}'}: {error.strerror}\n"
        os.write(2, text.encode())
    finally:
        os._exit(code)


def _wait(step: Step, started: _Run, report: Report) -> None:
    """Wait until all tasks have ended, and report the failed ones."""
    first_s: float | None = None
    memory = MemoryKills()
    while started.pids:
        late = step.kill_s is not None and first_s is not None and time.monotonic() - first_s >= step.kill_s
        if late:
            sys.stderr.write(f"srun: First task exited {step.kill_s:g}s ago\n")
            _end_all(started, signal.SIGKILL)
        limited = step.kill_s is not None and first_s is not None and not late
        pid, status = os.waitpid(-1, os.WNOHANG if limited else 0)
        if not pid:
            time.sleep(0.05)  # poll, because no system call waits for a child process with a timeout
            continue
        task = started.pids.pop(pid, None)
        if task is None:
            continue
        if step.epilog:
            around = {**step.environment, **step.of_task[task]}
            os.write(2, run_epilog(step.epilog, around, step.directory, step.node))
        first_s = first_s if first_s is not None else time.monotonic()
        code = started.codes[task] = memory.told(os.waitstatus_to_exitcode(status))
        if report.ended(step.node, task, code):
            sys.stderr.write(f"srun: launch/slurm: _step_signal: Terminating StepId={step.name}\n")
            sys.stderr.flush()
            _tell_cancelled(step)
            _end_all(started, signal.SIGTERM)


def _end_all(started: _Run, number: int) -> None:
    for pid in list(started.pids):
        _kill(pid, number)


def told(program: str, directory: str) -> str:
    """Return the program's name as Slurm's message about a failed start shows it. A relative path with a slash is
    joined to the directory."""
    return os.path.join(directory, program) if "/" in program else program
