"""Parse the specification of a job array (sbatch(1), --array), such as `0-31`, `1,3,5` or `1-7:2%4`, and print the
indexes of its pending tasks."""

from __future__ import annotations

import re
from collections.abc import Sequence

import msgspec

from phalanx.errors import PhalanxError

_SPAN = re.compile(r"(\d+)(?:-(\d+)(?::(\d+))?)?")


class ArrayError(PhalanxError):
    """The error for a specification that Slurm refuses."""


class Array(msgspec.Struct, frozen=True, kw_only=True):
    """A parsed --array. `tasks`: the indexes of the tasks in ascending order. `throttle`: the largest number of tasks
    that may run at the same time; 0: all. `step`: the step of the first range."""

    tasks: tuple[int, ...]
    throttle: int = 0
    step: int = 1


def read_array(text: str, most: int) -> Array:
    """Return the array that the value of --array specifies. `most`: the site's MaxArraySize; every index must be
    smaller. Raises ArrayError."""
    body, percent, cap = text.partition("%")
    tasks: set[int] = set()
    step = 0
    for part in body.split(","):
        found = _SPAN.fullmatch(part)
        if found is None:
            raise ArrayError(text)
        first, last, by = int(found[1]), int(found[2] or found[1]), int(found[3] or 1)
        if last < first or by < 1 or last >= most or (found[3] and not found[2]):
            raise ArrayError(text)
        tasks.update(range(first, last + 1, by))
        step = step or by
    throttle = int(cap) if percent and cap.isdecimal() else 0
    return Array(tasks=tuple(sorted(tasks)), throttle=throttle, step=step or 1)


def shown(tasks: Sequence[int], throttle: int = 0) -> str:
    """Return the text for several tasks in one line of squeue: `[3-6%2]`, `[1,3]`, or `6` for a single task."""
    if len(tasks) == 1:
        return str(tasks[0])
    spans: list[list[int]] = []
    for task in sorted(tasks):
        if spans and task == spans[-1][-1] + 1:
            spans[-1].append(task)
        else:
            spans.append([task])
    text = ",".join(str(span[0]) if len(span) == 1 else f"{span[0]}-{span[-1]}" for span in spans)
    return f"[{text}%{throttle}]" if throttle else f"[{text}]"
