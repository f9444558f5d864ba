"""The names of a job's API objects, and of the files to which it writes its output."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping

from phalanx.slurm.cluster.api import JOBS
from phalanx.slurm.jobs.ask import Ask

_PATTERN = re.compile(r"%(\d*)([%a-zA-Z])")


def name_of(number: int, ask: Ask | None = None) -> str:
    """Return the name of the Job and of its Secret. The names of an array's tasks sort by the task index, because jobs
    with the same submission second start in the order of their names."""
    if ask is not None and ask.array is not None:
        return f"slurm-{ask.array}-{ask.task:07}"
    return f"slurm-{number}"


def secret_of(number: int, ask: Ask) -> str:
    """Return the name of the Secret with the job's script and environment. All tasks of an array share one Secret."""
    return f"slurm-{number if ask.array is None else ask.array}"


def path_of(number: int, ask: Ask | None = None) -> str:
    return f"{JOBS}/{name_of(number, ask)}"


def path_within(number: int, around: Mapping[str, str]) -> str:
    """Return the API path of the Job with the job number `number`. A task of an array is only found if the caller runs
    in this task. `around`: the environment of the caller."""
    if number == int(around.get("SLURM_JOB_ID") or 0) and (task := around.get("SLURM_ARRAY_TASK_ID")):
        return f"{JOBS}/slurm-{around['SLURM_ARRAY_JOB_ID']}-{int(task):07}"
    return path_of(number)


def file_name(pattern: str, ask: Ask, number: int, *, running: bool = False) -> str:
    """Return the path of the file that a pattern (`slurm-%j.out`) names, in the job's directory. `running`: True for
    the name that the launcher in the pod opens; this name has a mark for %N, which the launcher replaces. False for the
    name that scontrol shows; only patterns whose values are known at submission are replaced in it."""
    if "\\" in pattern:  # a backslash disables all patterns; `\\` is replaced by `\`
        return os.path.join(ask.workdir, pattern.replace("\\\\", "\0").replace("\\", "").replace("\0", "\\"))
    array = number if ask.array is None else ask.array
    known = {
        "j": number,
        "J": number,
        "A": array,
        "x": ask.name,
        "u": ask.user,
        "a": 4294967294 if ask.task is None else ask.task,
    }
    if running:
        known |= {"N": "\x01N", "n": 0, "t": 0, "s": "batch"}

    def one(match: re.Match[str]) -> str:
        width, letter = match[1], match[2]
        if letter == "%" and not width:
            return "%" if running else "%%"
        if letter not in known or (not running and (width or letter == "J")):
            return match[0]
        value = str(known[letter])
        return value.zfill(min(int(width), 10)) if width and letter in "jJAant" else value

    return os.path.join(ask.workdir, _PATTERN.sub(one, pattern))
