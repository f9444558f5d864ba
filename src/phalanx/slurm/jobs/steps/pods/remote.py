"""Run a step on the pods of an allocation through their step daemons. srun receives the output of the tasks, and sends
its standard input and signals to the pods."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import signal
import struct
import sys
import termios
import threading
import time
import tty
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from phalanx.slurm.jobs.steps.pods import channel
from phalanx.slurm.jobs.steps.pods.channel import Broken, Channel
from phalanx.slurm.jobs.steps.pods.place import Allocation
from phalanx.slurm.jobs.steps.tasks import Report, interruptible

ALL = 0xFFFFFFFF
_TASK = struct.Struct("!I")


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteStep:
    """A step to run. `name`: the id of the step, such as `12.0`. `indexes`: the indexes of its pods in the allocation.
    `tasks`: for each of these pods, task number -> the variables of the task. `command`: a function that returns the
    command line of a task. `streams`: a function that takes a task number and returns the task's files: that of
    standard input, and (file, append) for output and for error; None stands for the stream of srun. `label`: True if
    output lines begin with the task number. `terminal`: True if the first task runs at srun's terminal. `kill_s`: the
    time in seconds after the end of the first task at which the other tasks are killed; None: never. `first_input`: the
    task that gets the standard input, or ALL. `prolog`, `epilog`: the programs that run before and after each task;
    empty: none."""

    name: str
    indexes: Sequence[int]
    tasks: Sequence[Mapping[int, Mapping[str, str]]]
    command: Callable[[int], Sequence[str]]
    environment: Mapping[str, str]
    directory: str
    streams: Callable[[int], tuple[str | None, tuple[str, bool] | None, tuple[str, bool] | None]]
    label: bool = False
    terminal: bool = False
    kill_s: float | None = None
    kill_on_bad_exit: bool = False
    first_input: int = ALL
    prolog: str = ""
    epilog: str = ""


@dataclass(slots=True)
class _State:
    links: list[Channel] = field(default_factory=list)
    codes: dict[int, int] = field(default_factory=dict)
    used: list[dict[str, Any]] = field(default_factory=list)
    lost: list[str] = field(default_factory=list)
    change: threading.Condition = field(default_factory=threading.Condition)
    partial: dict[tuple[int, bytes], bytes] = field(default_factory=dict)


def run(step: RemoteStep, place: Allocation) -> tuple[dict[int, int], dict[str, Any]]:
    """Run the step until all tasks have ended. Return the result of `os.waitstatus_to_exitcode` for each task, and the
    measured use of CPU time and memory. Raises Broken."""
    state, count = _State(), sum(len(some) for some in step.tasks)
    for index, tasks in zip(step.indexes, step.tasks, strict=True):
        link = place.channel(index)
        link.send(channel.RUN, json.dumps(_asked(step, tasks)).encode())
        state.links.append(link)
    report = Report(step.name, kill_on_bad_exit=step.kill_on_bad_exit)
    readers = [
        threading.Thread(target=_read, args=(step, state, report, link, place.nodes[index]), daemon=True)
        for link, index in zip(state.links, step.indexes, strict=True)
    ]
    for reader in readers:
        reader.start()
    restore = _raw() if step.terminal else None
    try:
        with interruptible(lambda number: _signal(state, number)):
            threading.Thread(target=_feed, args=(step, state), daemon=True).start()
            _wait(step, state, count, readers)
    finally:
        if restore is not None:
            restore()
        for link in state.links:
            link.close()
    _flush(step, state)
    report.finish()
    used = {
        "cpu_s": sum(one["cpu_s"] for one in state.used),
        "peak_kib": max((one["peak_kib"] for one in state.used), default=0),
    }
    return state.codes, used


def _asked(step: RemoteStep, tasks: Mapping[int, Mapping[str, str]]) -> dict[str, object]:
    size = shutil.get_terminal_size()
    return {
        "name": step.name,
        "commands": {str(task): step.command(task) for task in tasks},
        "environment": dict(step.environment),
        "directory": step.directory,
        "tasks": [[task, dict(own)] for task, own in tasks.items()],
        "streams": {str(task): step.streams(task) for task in tasks},
        "prolog": step.prolog,
        "epilog": step.epilog,
        "pty": [size.lines, size.columns] if step.terminal else None,
    }


def _read(step: RemoteStep, state: _State, report: Report, link: Channel, node: str) -> None:
    try:
        while True:
            kind, content = link.receive()
            if kind in (channel.STDOUT, channel.STDERR):
                if kind == channel.STDERR:
                    report.finish()  # print the messages about ended tasks first
                with state.change:
                    _write(step, state, kind, _TASK.unpack(content[:4])[0], content[4:])
            elif kind == channel.ENDED:
                task, code = json.loads(content)
                with state.change:
                    state.codes[task] = code
                    state.change.notify_all()
                if report.ended(node, task, code):
                    _signal(state, signal.SIGTERM)
            elif kind == channel.DONE:
                with state.change:
                    state.used.append(json.loads(content))
                    state.change.notify_all()
                return
    except (Broken, OSError) as error:
        with state.change:
            state.lost.append(f"{node}: {error}")
            state.change.notify_all()


def _write(step: RemoteStep, state: _State, kind: bytes, task: int, content: bytes) -> None:
    target = sys.stdout.buffer if kind == channel.STDOUT else sys.stderr.buffer
    if task == ALL or not step.label:
        target.write(content)
    else:
        lines = (state.partial.pop((task, kind), b"") + content).split(b"\n")
        if lines[-1]:
            state.partial[task, kind] = lines[-1]
        target.write(b"".join(_labelled(step, task, line) for line in lines[:-1]))
    target.flush()


def _labelled(step: RemoteStep, task: int, line: bytes) -> bytes:
    width = len(str(sum(len(some) for some in step.tasks) - 1))
    return f"{task:>{width}}: ".encode() + line + b"\n"


def _flush(step: RemoteStep, state: _State) -> None:
    """Write the last line of each task's output if it has no line feed."""
    for (task, kind), line in state.partial.items():
        (sys.stdout.buffer if kind == channel.STDOUT else sys.stderr.buffer).write(_labelled(step, task, line))
    sys.stdout.flush()
    sys.stderr.flush()


def _wait(step: RemoteStep, state: _State, count: int, readers: Sequence[threading.Thread]) -> None:
    first_s, told = None, False
    while any(reader.is_alive() for reader in readers):
        with state.change:
            state.change.wait(0.1)
            if state.codes and first_s is None:
                first_s = time.monotonic()
            late = step.kill_s is not None and first_s is not None and time.monotonic() - first_s >= step.kill_s
            late = late and len(state.codes) < count and not told
        if late:
            told = True
            sys.stderr.write(f"srun: First task exited {step.kill_s:g}s ago\n")
            sys.stderr.flush()
            _signal(state, signal.SIGKILL)
    if state.lost and len(state.codes) < count:
        for text in state.lost:
            sys.stderr.write(f"srun: error: {text}\n")


def _signal(state: _State, number: int) -> None:
    for link in state.links:
        try:
            link.send(channel.SIGNAL, str(int(number)).encode())
        except OSError:
            continue


def _feed(step: RemoteStep, state: _State) -> None:
    """Send standard input to all tasks or to one task, until the input ends."""
    to = _TASK.pack(0 if step.terminal else step.first_input)
    if step.terminal:
        signal_size(state.links)
    while True:
        try:
            part = os.read(0, 1 << 16)
        except OSError:
            part = b""
        for link in state.links:
            try:
                link.send(channel.STDIN, to + part)
            except OSError:
                continue
        if not part:
            return


def signal_size(links: Sequence[Channel]) -> None:
    size = shutil.get_terminal_size()
    for link in links:
        link.send(channel.WINDOW, json.dumps([size.lines, size.columns]).encode())


def _raw() -> Callable[[], None] | None:
    """Set the terminal to raw mode, and return a function that restores it."""
    if not os.isatty(0):
        return None
    before = termios.tcgetattr(0)
    tty.setraw(0)
    fcntl.fcntl(0, fcntl.F_GETFL)
    return lambda: termios.tcsetattr(0, termios.TCSADRAIN, before)
