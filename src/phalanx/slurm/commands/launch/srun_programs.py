"""The programs of `srun --prolog` and `--epilog`: they run where srun runs, before and after the step."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from phalanx.slurm.options import say

_Result = TypeVar("_Result")


def around_step(
    said: Mapping[str, str | None], command: Sequence[str], environment: Mapping[str, str], work: Callable[[], _Result]
) -> _Result:
    """Run the prolog, the work and the epilog, and return what the work returned. `command`: what the programs get as
    arguments. As in Slurm, their exit codes change nothing."""
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
