"""`--policy FILE.py`: a policy whose priorities a Python function computes.

The file defines `priority(job)`, where `job` is a `phalanx.WaitingJob`; a higher value is sooner. It may define
`policy`, a dict with the fields of a policy file, and for simulations `queues`, a list as a setup file has it."""

from __future__ import annotations

import logging
import math
import runpy
import time
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from phalanx.errors import PhalanxError
from phalanx.model.policy import PriorityFunction, WaitingJob

SUFFIX = ".py"
_LAST = -math.inf  # the priority of a job whose priority cannot be computed: behind all others
_SAY_AGAIN_S = 60.0


@dataclass(frozen=True, slots=True)
class PriorityFile:
    """The definitions of a file. `function`: the priority function, which raises PhalanxError if the file's `priority`
    fails. `policy`, `queues`: these variables of the file."""

    function: PriorityFunction
    policy: Mapping[str, Any]
    queues: Any


def read_priority_file(file: Path) -> PriorityFile:
    """Run the file as Python, and return its definitions. Raises PhalanxError with the file and the line."""
    if not file.is_file():
        raise PhalanxError(f"{file}: there is no such file")
    try:
        found = runpy.run_path(str(file), run_name=file.stem)
    except SyntaxError as error:
        raise PhalanxError(f"{error.filename}:{error.lineno or 1}: this is not Python: {error.msg}") from None
    except Exception as error:  # any error in the file is for its author to mend
        raise PhalanxError(f"{_place(file, error)}: {type(error).__name__}: {error}") from None
    function, policy = found.get("priority"), found.get("policy", {})
    if not callable(function):
        raise PhalanxError(f"{file}: define a function `priority(job)` that returns a number; higher is sooner")
    if not isinstance(policy, dict):
        raise PhalanxError(
            f"{file}: `policy` is a dict with the fields of a policy file, such as {{'backfill': 'easy'}}"
        )
    return PriorityFile(_Checked(file, function), policy, found.get("queues"))


@dataclass(frozen=True, slots=True)
class _Checked:
    """The priority function of the file. Raises PhalanxError if the function fails or does not return a number."""

    file: Path
    function: Callable[[WaitingJob], Any]

    def __call__(self, job: WaitingJob, /) -> float:
        try:
            value = self.function(job)
        except Exception as error:  # the function is of the same author
            raise PhalanxError(
                f"{_place(self.file, error)}: {type(error).__name__}: {error}, for job {job.id}"
            ) from None
        if not isinstance(value, int | float) or math.isnan(value):
            raise PhalanxError(f"{self.file}: priority returned {value!r} for job {job.id}; return a number")
        return float(value)


class Tolerant:
    """A priority function for a scheduler, which must not stop at an error. A job whose priority cannot be computed
    comes last. The error is logged, at most once a minute."""

    __slots__ = ("_function", "_said_s")

    def __init__(self, function: PriorityFunction) -> None:
        self._function = function
        self._said_s = -math.inf

    def __call__(self, job: WaitingJob, /) -> float:
        try:
            return self._function(job)
        except PhalanxError as error:
            if time.monotonic() >= self._said_s + _SAY_AGAIN_S:
                self._said_s = time.monotonic()
                logging.getLogger(__name__).error("%s; the job comes after all others", error)  # noqa: TRY400 - the text is all that the administrator needs
            return _LAST


def _place(file: Path, error: Exception) -> str:
    """Return `FILE:LINE`, the last line of the file that ran before the error."""
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == str(file)]
    return f"{file}:{lines[-1]}" if lines else str(file)
