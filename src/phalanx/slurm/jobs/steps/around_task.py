"""The programs of `srun --task-prolog` and `--task-epilog`, which run before and after each task of a step.

    python -m phalanx.slurm.jobs.steps.around_task PROLOG COMMAND...   run PROLOG, then replace this process by COMMAND

The prolog's output can change the task. The lines `export NAME=value` and `unset NAME` change the environment of the
task; the line `print TEXT` writes the text to the task's standard output. Rules and messages are those of Slurm 22.05.
"""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping, MutableMapping, Sequence
from contextlib import suppress
from typing import NoReturn

EPILOG_S = 5.0  # Slurm kills an epilog after this time
MOST_BYTES = 1 << 20  # the maximum number of bytes of an epilog's standard error that are forwarded


def directory_of(directory: str, node: str, tasks: int) -> tuple[str, bytes]:
    """Return the directory in which tasks run, and an error text. If tasks cannot enter `directory`, return /tmp and
    Slurm's error message.

    `tasks`: the number of tasks on this node. As in Slurm, the text has the message once for the step and once for each
    task.
    """
    if os.path.isdir(directory) and os.access(directory, os.X_OK):
        return directory, b""
    try:
        os.close(os.open(directory, os.O_PATH | os.O_DIRECTORY))
        why = os.strerror(errno.EACCES)
    except OSError as error:
        why = error.strerror or ""
    text = f"slurmstepd-{node}: error: couldn't chdir to `{directory}': {why}: going to /tmp instead\n"
    return "/tmp", text.encode() * (1 + tasks)  # noqa: S108 - as Slurm does


def make_tmpdir(around: MutableMapping[str, str], node: str) -> bytes:
    """Create the directory that the variable TMPDIR in `around` names. If that fails, return the message that Slurm
    writes. If the variable is missing or the directory cannot be created, set TMPDIR to /tmp."""
    wanted = around.get("TMPDIR", "")
    if wanted:
        try:
            os.mkdir(wanted, 0o700)
        except FileExistsError:
            return b""
        except OSError as error:
            what = f"slurmstepd-{node}: error: "
            around["TMPDIR"] = "/tmp"  # noqa: S108 - as Slurm does
            return (
                f"{what}Unable to create TMPDIR [{wanted}]: {error.strerror}\n{what}Setting TMPDIR to /tmp\n".encode()
            )
        return b""
    around["TMPDIR"] = "/tmp"  # noqa: S108 - as Slurm does
    return b""


def find_program(name: str, around: Mapping[str, str], directory: str) -> str:
    """Return the path of the program `name`. As in Slurm, a name without a slash is only found if PATH is set. Raises
    OSError."""
    places = [""] if "/" in name else [place for place in around.get("PATH", "").split(":") if place]
    for place in places:
        path = os.path.join(directory, place, name)
        if os.path.isfile(path) and os.access(path, os.X_OK):
            return path
    code = errno.EACCES if "/" in name and os.path.exists(os.path.join(directory, name)) else errno.ENOENT
    raise OSError(code, os.strerror(code), name)


def run_prolog(program: str, around: MutableMapping[str, str], node: str) -> int:
    """Run the prolog with the environment `around`, apply the lines of its output, and return its exit code."""
    around["SLURM_SCRIPT_CONTEXT"] = "prolog_task"
    what = f"slurmstepd-{node}: error: "
    if why := _why_not(program):
        _complain(f"{what}run_command: user task_prolog {why}")
        return _failed(what, "Run command failed - configuration error")
    ended = subprocess.run(
        [program], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=dict(around),
        check=False, process_group=0,
    )  # fmt: skip
    if ended.returncode < 0:
        return _failed(what, os.fsdecode(ended.stdout))
    _carry_out(ended.stdout, around)
    if ended.returncode:
        _complain(f"{what}--task-prolog failed status={ended.returncode}")
    return ended.returncode


def _why_not(program: str) -> str:
    """Return the part of Slurm's message that states why Slurm does not run the program; "" if Slurm would run it."""
    if not program.startswith("/"):
        return f"is not fully qualified pathname ({program})"
    if not os.path.exists(program):
        return f"can not be executed ({program}) {os.strerror(2)}"
    return "" if os.access(program, os.R_OK | os.X_OK) else f"can not be executed ({program}) {os.strerror(13)}"


def _failed(what: str, reason: str) -> int:
    _complain(f"{what}user task_prolog did not exit normally. reason: {reason}")
    _complain(f"{what}--task-prolog failed status=1")
    return 1


def _complain(text: str) -> None:
    os.write(2, text.encode() + b"\n")


def _carry_out(said: bytes, around: MutableMapping[str, str]) -> None:
    """Apply the lines `export`, `unset` and `print` of a prolog's output, and ignore all other lines.
    `around`: the environment of the task, which is changed."""
    for line in said.splitlines(keepends=True):
        verb, _, rest = line.partition(b" ")
        rest = rest.lstrip()
        text = os.fsdecode(rest.rstrip(b"\n"))
        match verb:
            case b"print":
                os.write(1, rest)
            case b"export" if "=" in text:
                name, _, value = text.partition("=")
                around[name.rstrip()] = value
            case b"unset":
                around.pop(text.rstrip(), None)


def run_epilog(program: str, around: Mapping[str, str], directory: str, node: str) -> bytes:
    """Run the epilog of a task that has ended, for EPILOG_S seconds at most. Return the text that the caller must write
    to the step's standard error.

    As in Slurm, the standard output of the epilog is discarded.
    """
    own = {**around, "SLURM_SCRIPT_CONTEXT": "epilog_task", "SLURMD_NODENAME": node}
    what = f"slurmstepd-{node}: error: "
    if not program.startswith("/") or not os.access(program, os.R_OK | os.X_OK):
        text = f"{what}Could not run user task_epilog [{program}]: access denied\n{what}TaskEpilog failed status=-1\n"
        return text.encode()
    # Standard error goes to a file, not to a pipe: a process that outlives the epilog would keep a pipe open.
    with tempfile.TemporaryFile() as said:
        try:
            process = subprocess.Popen(
                [program], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=said, env=own,
                cwd=directory, process_group=0,
            )  # fmt: skip
        except OSError as error:
            return f"{what}execve({program}): {error.strerror}\n{what}TaskEpilog failed status=32512\n".encode()
        with suppress(subprocess.TimeoutExpired):
            process.wait(EPILOG_S)
        with suppress(ProcessLookupError):
            # ends a slow epilog, and all processes that the epilog started and left running
            os.killpg(process.pid, signal.SIGKILL)
        code = process.wait()
        said.seek(0)
        written = said.read(MOST_BYTES)
    status = code << 8 if code >= 0 else -code  # the form of wait(2)
    return written + (f"{what}TaskEpilog failed status={status}\n".encode() if status else b"")


def main(words: Sequence[str]) -> NoReturn:
    """Run the prolog, and then replace this process by the command. If the prolog fails, exit with its exit code."""
    around, node = dict(os.environ), os.environ.get("SLURMD_NODENAME", "")
    if code := run_prolog(words[0], around, node):
        sys.exit(code)
    # Python ignores SIGPIPE, and the command must not inherit this setting
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    around["SLURM_TASK_PID"] = str(os.getpid())
    os.execve(words[1], list(words[1:]), around)  # noqa: S606 - srun runs commands of its user


if __name__ == "__main__":
    main(sys.argv[1:])
