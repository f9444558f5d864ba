"""Which program each task of a step runs: the same, or those of a --multi-prog file (srun(1), MULTIPLE PROGRAMS)."""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Mapping, Sequence

from phalanx.slurm.options import Usage


def require_file(said: Mapping[str, str | None], command: Sequence[str]) -> None:
    """Raise Usage if the file of --multi-prog cannot be opened. As in Slurm, this is checked before nodes are
    requested."""
    if "multi-prog" in said and command and not os.access(command[0], os.R_OK):
        raise _unreadable(command[0])


def _unreadable(name: str) -> Usage:
    return Usage(f"srun: error: Could not open multi_prog config file {name}")


def commands(said: Mapping[str, str | None], command: Sequence[str], tasks: int) -> Callable[[int], Sequence[str]]:
    """Raises Usage."""
    if "multi-prog" not in said:
        return lambda task: command
    try:
        with open(command[0]) as file:
            found: dict[int, list[str]] = {}
            for task, words in _entries(file.read(), tasks):
                found.setdefault(task, words)  # the first line with the task counts
    except OSError:
        raise _unreadable(command[0]) from None
    for task in range(tasks):
        if task not in found:
            raise Usage(f"srun: error: Configuration file {command[0]} invalid, no record for task id {task}")
    return lambda task: found[task]


def _entries(text: str, tasks: int) -> list[tuple[int, list[str]]]:
    """Return (task, words of its command) for each line: `0-2,4 program args`, `* program`. In the words, %t becomes
    the task, and %o its position among the line's tasks."""
    found = []
    for line in text.replace("\\\n", " ").splitlines():
        words = shlex.split(line, comments=True)
        if not words:
            continue
        numbers = list(range(tasks)) if words[0] == "*" else _numbers(words[0])
        for at, task in enumerate(numbers):
            found.append((task, [word.replace("%t", str(task)).replace("%o", str(at)) for word in words[1:]]))
    return found


def _numbers(text: str) -> list[int]:
    found: list[int] = []
    for part in text.split(","):
        first, _, last = part.partition("-")
        if not first.isdigit() or (last and not last.isdigit()):
            raise Usage(f"srun: error: invalid task range specification ({text})")
        found += range(int(first), int(last or first) + 1)
    return found
