"""Apply those options of srun that are the same for a step of an existing job and for a step with a new job:

- the files for the standard streams of tasks;
- the programs of tasks: one program for all, or the programs in a --multi-prog file (srun(1), MULTIPLE PROGRAMS);
- environment variables that set options of srun (srun(1), INPUT ENVIRONMENT VARIABLES);
- the programs of --prolog and --epilog, which run on the machine of srun before and after the step."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
from collections.abc import Callable, Mapping, MutableMapping, Sequence
from typing import TypeVar

from phalanx.slurm.options import Usage, say

_PATTERN = re.compile(r"%(\d*)([%a-zA-Z])")
Said = Mapping[str, str | None]


def named_by(around: Mapping[str, str], job: str, number: int) -> Callable[[str | None, int], str | None]:
    """Return a function that takes a file name pattern and a task number, and returns the file that the pattern names;
    None if the pattern names no file. `number`: the number of the step."""
    known = {
        "j": job, "A": around.get("SLURM_ARRAY_JOB_ID", job), "a": around.get("SLURM_ARRAY_TASK_ID", "4294967294"),
        "J": f"{job}.{number}", "s": str(number), "n": "0", "u": around.get("SLURM_JOB_USER", ""),
        "x": around.get("SLURM_JOB_NAME", ""), "N": around.get("SLURMD_NODENAME", ""), "%": "%",
    }  # fmt: skip

    def named(pattern: str | None, task: int) -> str | None:
        if not pattern or pattern == "all" or pattern.isdecimal():
            return None
        if pattern == "none":
            return os.devnull
        own = {**known, "t": str(task)}
        return _PATTERN.sub(lambda match: own.get(match[2], match[0]).zfill(int(match[1] or 0)), pattern)

    return named


def source_of(said: Said, named: Callable[[str | None, int], str | None], task: int) -> str | None:
    """Return the file for the standard input of a task; None for the standard input of srun. `named`: the result of
    `named_by`. Raises Usage."""
    text = said.get("input")
    if text is None or text in ("all", str(task)):
        return None
    if text.isdecimal() or text == "none":
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
    """Return a function that takes a task number and returns the files for the task's standard output and error. This
    call creates all these files; it truncates existing files, unless --open-mode=append is given. Raises Usage."""
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
    """Return a function that takes a task number and returns the task's streams in the form for a step daemon: the
    input file, and (file, append) for output and error. srun truncates each file once; the daemons append, because
    several tasks may write to the same file."""
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


def require_file(said: Mapping[str, str | None], command: Sequence[str]) -> None:
    """Raise Usage if the file of --multi-prog cannot be opened. As in Slurm, this is checked before nodes are
    requested."""
    if "multi-prog" in said and command and not os.access(command[0], os.R_OK):
        raise _unreadable(command[0])


def _unreadable(name: str) -> Usage:
    return Usage(f"srun: error: Could not open multi_prog config file {name}")


def commands(said: Mapping[str, str | None], command: Sequence[str], tasks: int) -> Callable[[int], Sequence[str]]:
    """Return a function that takes a task number and returns the command line of the task. Raises Usage."""
    if "multi-prog" not in said:
        return lambda task: command
    try:
        with open(command[0]) as file:
            found: dict[int, list[str]] = {}
            for task, words in _entries(file.read(), tasks):
                found.setdefault(task, words)  # the first line that names the task is used
    except OSError:
        raise _unreadable(command[0]) from None
    for task in range(tasks):
        if task not in found:
            raise Usage(f"srun: error: Configuration file {command[0]} invalid, no record for task id {task}")
    return lambda task: found[task]


def _entries(text: str, tasks: int) -> list[tuple[int, list[str]]]:
    """Return (task number, words of its command) for each task of each line of a --multi-prog file, such as `0-2,4
    program args` or `* program`. In the words, %t is replaced by the task number, and %o by the position of the task in
    the line's list. `tasks`: the number of tasks."""
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
        if not first.isdecimal() or (last and not last.isdecimal()):
            raise Usage(f"srun: error: invalid task range specification ({text})")
        found += range(int(first), int(last or first) + 1)
    return found


# Variables that set options of a step, inside and outside of a job. The variables for the numbers of tasks, CPUs and
# nodes are not in this list; other functions read them.
_OF_STEPS = {
    "SLURM_DISABLE_STATUS": "disable-status", "SLURM_EPILOG": "epilog", "SLURM_EXACT": "exact",
    "SLURM_EXPORT_ENV": "export", "SRUN_EXPORT_ENV": "export", "SLURM_KILL_BAD_EXIT": "kill-on-bad-exit",
    "SLURM_LABELIO": "label", "SLURM_OPEN_MODE": "open-mode", "SLURM_OVERLAP": "overlap", "SLURM_PROLOG": "prolog",
    "SLURM_REMOTE_CWD": "chdir", "SLURM_WORKING_DIR": "chdir", "SLURM_STDERRMODE": "error", "SLURM_STDINMODE": "input",
    "SLURM_STDOUTMODE": "output", "SLURM_TASK_EPILOG": "task-epilog", "SLURM_TASK_PROLOG": "task-prolog",
    "SLURM_UNBUFFEREDIO": "unbuffered", "SLURM_WAIT": "wait", "SRUN_CPUS_PER_TASK": "cpus-per-task",
}  # fmt: skip
# Variables that set options of the allocation that srun creates. Inside a job, srun ignores these variables, because
# some of them then describe the job.
_OF_ALLOCATIONS = {
    "SLURM_ACCOUNT": "account", "SLURM_CONSTRAINT": "constraint", "SLURM_DEPENDENCY": "dependency",
    "SLURM_EXCLUSIVE": "exclusive", "SLURM_GPUS": "gpus", "SLURM_GPUS_PER_NODE": "gpus-per-node",
    "SLURM_GPUS_PER_TASK": "gpus-per-task", "SLURM_GRES": "gres", "SLURM_HINT": "hint", "SLURM_JOB_NAME": "job-name",
    "SLURM_JOB_NUM_NODES": "nodes", "SLURM_MEM_PER_CPU": "mem-per-cpu", "SLURM_MEM_PER_NODE": "mem",
    "SLURM_NPROCS": "ntasks", "SLURM_NTASKS": "ntasks", "SLURM_NTASKS_PER_NODE": "ntasks-per-node",
    "SLURM_OVERCOMMIT": "overcommit", "SLURM_PARTITION": "partition", "SLURM_QOS": "qos",
    "SLURM_RESERVATION": "reservation", "SLURM_SIGNAL": "signal", "SLURM_THREADS": "threads",
    "SLURM_TIMELIMIT": "time", "SLURM_WCKEY": "wckey",
}  # fmt: skip
_FLAGS = {"disable-status", "exact", "label", "overcommit", "overlap", "unbuffered"}

_PRESERVED = ("SLURM_NTASKS", "SLURM_NPROCS", "SLURM_NNODES")


def preserved(said: Mapping[str, str | None], environment: dict[str, str], own: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of a step. With --preserve-env, the variables for the numbers of tasks and nodes are
    copied from `own`, the environment of srun."""
    if "preserve-env" not in said:
        return environment
    kept = {name: own[name] for name in _PRESERVED if name in own}
    return {name: text for name, text in environment.items() if name not in _PRESERVED} | kept


def with_variables(said: MutableMapping[str, str | None], around: Mapping[str, str]) -> None:
    """Add the options to `said` that environment variables set and the command line does not."""
    within = "jobid" in said or bool(around.get("SLURM_JOB_ID"))
    found: dict[str, str | None] = {}
    for name, option in (_OF_STEPS if within else {**_OF_STEPS, **_OF_ALLOCATIONS}).items():
        text = around.get(name)
        if text is None or (option in _FLAGS and text.lower() in ("no", "0")):
            continue
        found[option] = None if option in _FLAGS else text
    said.update({option: text for option, text in found.items() if option not in said})


_Result = TypeVar("_Result")


def around_step(
    said: Mapping[str, str | None], command: Sequence[str], environment: Mapping[str, str], work: Callable[[], _Result]
) -> _Result:
    """Run the program of --prolog, call `work`, run the program of --epilog, and return the result of `work`.
    `command`: the arguments of both programs. As in Slurm, their exit codes are ignored."""
    _run("prolog", said, command, environment)
    result = work()
    _run("epilog", said, command, environment)
    return result


def _run(part: str, said: Mapping[str, str | None], command: Sequence[str], environment: Mapping[str, str]) -> None:
    program = said.get(part) or ""
    if not program or program.lower() == "none":
        return
    if not os.access(program, os.R_OK | os.X_OK):
        if "quiet" not in said:
            say(f"srun: Access denied for {program}: {os.strerror(13 if os.path.exists(program) else 2)}")
        return
    try:
        around = {**environment, "SLURM_SCRIPT_CONTEXT": f"{part}_srun"}
        subprocess.run([os.path.abspath(program), *command], env=around, check=False)
    except OSError as error:
        say(f"srun: error: Failed to execute srun prolog/epilog script: {error.strerror}")
