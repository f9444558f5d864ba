"""The files that srun's options name for the standard streams of tasks."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping

from phalanx.slurm.options import Usage

_PATTERN = re.compile(r"%(\d*)([%a-zA-Z])")
Said = Mapping[str, str | None]


def named_by(around: Mapping[str, str], job: str, number: int) -> Callable[[str | None, int], str | None]:
    """Return a function from a pattern and a task to the file that the pattern names; None: the pattern names no
    file."""
    known = {
        "j": job, "A": around.get("SLURM_ARRAY_JOB_ID", job), "a": around.get("SLURM_ARRAY_TASK_ID", "4294967294"),
        "J": f"{job}.{number}", "s": str(number), "n": "0", "u": around.get("SLURM_JOB_USER", ""),
        "x": around.get("SLURM_JOB_NAME", ""), "N": around.get("SLURMD_NODENAME", ""), "%": "%",
    }  # fmt: skip

    def named(pattern: str | None, task: int) -> str | None:
        if not pattern or pattern == "all" or pattern.isdigit():
            return None
        if pattern == "none":
            return os.devnull
        own = {**known, "t": str(task)}
        return _PATTERN.sub(lambda match: own.get(match[2], match[0]).zfill(int(match[1] or 0)), pattern)

    return named


def source_of(said: Said, named: Callable[[str | None, int], str | None], task: int) -> str | None:
    """Return the file that is a task's standard input; None: srun's own."""
    text = said.get("input")
    if text is None or text in ("all", str(task)):
        return None
    if text.isdigit() or text == "none":
        return os.devnull
    path = os.path.join(said.get("chdir") or os.getcwd(), named(text, task) or os.devnull)
    try:
        os.close(os.open(path, os.O_RDONLY))
    except OSError as error:
        raise Usage(f"srun: error: Could not open stdin file: {error.strerror}") from None
    return path


def outputs_of(
    said: Said, around: Mapping[str, str], job: str, number: int, tasks: int
) -> Callable[[int], tuple[str | None, str | None]]:
    """Return a function from a task to its files of standard output and error. All of these files are created or,
    without --open-mode=append, truncated by this call. Raises Usage."""
    named = named_by(around, job, number)
    how = os.O_APPEND if (said.get("open-mode") or "").startswith("a") else os.O_TRUNC
    for option, what in (("output", "stdout"), ("error", "stderr")):
        for file in {named(said.get(option), task) for task in range(tasks)} - {None, os.devnull}:
            path = os.path.join(said.get("chdir") or os.getcwd(), file or "")
            try:
                os.close(os.open(path, os.O_WRONLY | os.O_CREAT | how, 0o666))
            except OSError as error:
                raise Usage(f"srun: error: Could not open {what} file: {error.strerror}") from None

    def of(task: int) -> tuple[str | None, str | None]:
        output = named(said.get("output"), task)
        return output, named(said.get("error"), task) or output

    return of


def streams_of(
    said: Said, around: Mapping[str, str], job: str, number: int
) -> Callable[[int], tuple[str | None, tuple[str, bool] | None, tuple[str, bool] | None]]:
    """Return a function from a task to its streams, in the form for a step daemon: input, and (file, append) for output
    and error. A file is truncated once, by this process, since several tasks may write it."""
    named, emptied = named_by(around, job, number), set[str]()
    folder = said.get("chdir") or os.getcwd()

    def output(pattern: str | None, task: int) -> tuple[str, bool] | None:
        file = named(pattern, task)
        if file is None:
            return None
        path = os.path.join(folder, file)
        if path not in emptied and not (said.get("open-mode") or "").startswith("a"):
            emptied.add(path)
            os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o666))
        return path, True

    def of(task: int) -> tuple[str | None, tuple[str, bool] | None, tuple[str, bool] | None]:
        out = output(said.get("output"), task)
        return source_of(said, named, task), out, output(said.get("error"), task) or out

    return of
