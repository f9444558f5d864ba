"""Read policy files. Error messages name the file and the line.

- `--policy FILE.yaml` has the scheduling settings of the whole cluster.
- `--policy FILE.py` is Python, and defines `priority(job)`, which returns the priority of a `phalanx.WaitingJob`; jobs
with a higher priority start sooner. The file may define `policy`, a dict with the fields of a policy file, and for
simulations `queues`, a list as in a setup file.
- A setup file is for simulations. It has `policy` (the content of a policy file) and `queues`, each with a `name` and
the fields of the Queue resource's spec. `each` is the spec of every queue that the trace names but `queues` does not
contain; the `parent` in `each` may be one of `queues`. With `flat: true` all jobs are submitted to the policy's default
queue, and the queues in the trace are ignored."""

from __future__ import annotations

import logging
import math
import runpy
import time
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import yaml

from phalanx.cli.files.placed_file import read_placed
from phalanx.dialects.enabled import DIALECTS as FRAMED
from phalanx.dialects.job_kinds.replica_types import NAME as KUBEFLOW
from phalanx.dialects.schema.fields import Fields, Misread
from phalanx.dialects.schema.fields import Path as Place
from phalanx.dialects.schema.policy import read_policy
from phalanx.dialects.schema.queue import read_queue
from phalanx.errors import PhalanxError
from phalanx.model.policy import Policy, PriorityFunction, WaitingJob
from phalanx.model.queue import Queue
from phalanx.simulator.run.setup import ONE, Setup, built_in

SUFFIX = ".py"
_LAST = -math.inf  # the priority of a job whose priority cannot be computed, so that the job comes after all other jobs
_SAY_AGAIN_S = 60.0


@dataclass(frozen=True, slots=True)
class PriorityFile:
    """The definitions in a Python policy file. `function`: a function that calls `priority` of the file, and raises
    PhalanxError if that fails. `policy`, `queues`: the values of these variables in the file."""

    function: PriorityFunction
    policy: Mapping[str, Any]
    queues: object


def read_priority_file(file: Path) -> PriorityFile:
    """Run the file as Python, and return its definitions. Raises PhalanxError, with file and line, if the file raises
    an exception or does not define `priority`."""
    if not file.is_file():
        raise PhalanxError(f"{file}: there is no such file")
    try:
        found = runpy.run_path(str(file), run_name=file.stem)
    except SyntaxError as error:
        raise PhalanxError(f"{error.filename}:{error.lineno or 1}: this is not Python: {error.msg}") from None
    except Exception as error:  # the file may raise any exception
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
    """The priority function of the file `file`. A call raises PhalanxError if the function fails or does not return a
    number."""

    file: Path
    function: Callable[[WaitingJob], Any]

    def __call__(self, job: WaitingJob, /) -> float:
        try:
            value = self.function(job)
        except Exception as error:  # the function may raise any exception
            raise PhalanxError(
                f"{_place(self.file, error)}: {type(error).__name__}: {error}, for job {job.id}"
            ) from None
        if not isinstance(value, int | float) or math.isnan(value):
            raise PhalanxError(f"{self.file}: priority returned {value!r} for job {job.id}; return a number")
        return float(value)


class Tolerant:
    """A priority function for a scheduler, which must not stop because of an error in the user's function. A job whose
    priority cannot be computed comes after all other jobs. The error is logged, at most once a minute."""

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
    """Return `FILE:LINE`, where LINE is the last line of the file that ran before the error."""
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == str(file)]
    return f"{file}:{lines[-1]}" if lines else str(file)


DIALECTS = frozenset({KUBEFLOW, *FRAMED})
_DIALECTS = "dialects"  # a key in `PolicySettings.text`
_FUNCTION = "priorityFunction"  # a key in `PolicySettings.text`


@dataclass(frozen=True, slots=True)
class PolicySettings:
    """The settings of a policy file. `values`: the fields that the file sets, with their values as read from YAML.
    `dialects`: the other schedulers that Phalanx replaces. `function`: the name of the Python file that computes
    priorities, or ""; only the process that has read this file can call it."""

    policy: Policy
    values: Mapping[str, object]
    dialects: frozenset[str] = frozenset()
    function: str = ""

    def text(self) -> str:
        """Return the settings as a text that other processes can parse with `settings_from`; "" if all settings have
        their default."""
        said = dict(self.values)
        if self.dialects:
            said[_DIALECTS] = sorted(self.dialects)
        if self.function:
            said[_FUNCTION] = self.function
        return msgspec.json.encode(said).decode() if said else ""


def settings_of(file: Path | None, default_queue: str | None = None) -> PolicySettings:
    """Return the settings of the file, or the defaults without a file. `default_queue`: replaces the default queue of
    the file. Raises PhalanxError."""
    found = None if file is None or file.suffix != SUFFIX else read_priority_file(file)
    values = dict({} if file is None else _values(file) if found is None else found.policy)
    if default_queue is not None:
        values["defaultQueue"] = default_queue
    if found is None:
        return PolicySettings(read_policy(values), values)
    try:
        policy = replace(read_policy(values), priority_function=Tolerant(found.function))
    except Misread as misread:
        raise PhalanxError(f"{file}: policy: {misread}") from None
    return PolicySettings(policy, values, function=file.name if file is not None else "")


def settings_from(text: str) -> PolicySettings:
    """Return the settings that another process wrote with `PolicySettings.text`; the defaults if the text cannot be
    read."""
    try:
        values = msgspec.json.decode(text or "{}", type=dict[str, Any])
        dialects = frozenset(map(str, values.pop(_DIALECTS, ())))
        function = str(values.pop(_FUNCTION, ""))
        return PolicySettings(read_policy(values), values, dialects, function)
    except (msgspec.MsgspecError, Misread):
        return PolicySettings(Policy(), {})


def _values(file: Path) -> Mapping[str, object]:
    try:
        text = file.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise PhalanxError(f"the policy {file} cannot be read: {error}") from error
    try:
        tree, values = yaml.compose(text, yaml.SafeLoader), yaml.safe_load(text)
    except (yaml.YAMLError, RecursionError) as error:
        raise PhalanxError(f"the policy {file} is not YAML: {' '.join(str(error).split())}") from error
    try:
        read_policy(values)
    except Misread as error:
        raise PhalanxError(f"{file}:{_line(tree, error.path)}: {error}") from None
    return values or {}


def _line(node: Any, path: Place) -> int:
    """Return the line of the value at `path`, counted from 1. If the value does not exist, return the line of the
    innermost existing value that would contain it."""
    found = 1 if node is None else node.start_mark.line + 1
    for step in path:
        inside = None
        if isinstance(node, yaml.MappingNode):
            inside = next(((key, value) for key, value in node.value if key.value == str(step)), None)
        elif isinstance(node, yaml.SequenceNode) and isinstance(step, int) and step < len(node.value):
            inside = (node.value[step], node.value[step])
        if inside is None:
            break
        found, node = inside[0].start_mark.line + 1, inside[1]
    return int(found)


Read = TypeVar("Read")

SUFFIXES = {".yaml", ".yml", ".json"}


def setup_of(name: str) -> Setup:
    """Return the setup (policy and queues of a simulation) with a built-in name, or from a file. Raises
    PhalanxError."""
    file = Path(name)
    if file.suffix == SUFFIX:
        return _in_python(file)
    return read_placed(file, lambda said: _setup(said, file.stem)) if file.suffix in SUFFIXES else built_in(name)


def _in_python(file: Path) -> Setup:
    """Return the setup of a Python file with a priority function. If the file defines no queues, the setup has one
    queue, whose order this function determines."""
    read = read_priority_file(file)
    said: dict[str, Any] = {"policy": read.policy}
    said["queues"] = [{"name": ONE, "order": "multifactor"}] if read.queues is None else read.queues
    said["flat"] = read.queues is None
    try:
        setup = _setup(Fields(said), file.stem)
    except Misread as misread:
        raise PhalanxError(f"{file}: {misread}") from None
    return replace(setup, policy=replace(setup.policy, priority_function=read.function))


def _setup(said: Fields, stem: str) -> Setup:
    queues = tuple(_queue(entry) for entry in said.each("queues"))
    each = said.value("each")
    setup = Setup(
        name=said.text("name", stem),
        policy=_within("policy", lambda: read_policy(said.value("policy"))),
        queues=queues,
        flat=said.flag("flat", not queues and each is None),
        of_each=None if each is None else _within("each", lambda: read_queue("", each)),
    )
    said.done()
    if setup.flat and setup.policy.default_queue not in {queue.name for queue in queues}:
        return Setup(name=setup.name, policy=setup.policy, queues=(*queues, Queue(name=setup.policy.default_queue)))
    return setup


def _queue(entry: Fields) -> Queue:
    name = entry.text("name")
    if not name:
        raise Misread((*entry.path, "name"), "a queue has a name")
    spec = {key: value for key, value in entry.values.items() if key != "name"}
    try:
        return read_queue(name, spec)
    except Misread as misread:
        raise Misread((*entry.path, *misread.path[1:]), misread.text) from None


def _within(name: str, read: Callable[[], Read]) -> Read:
    """Call `read` for the field `name`, and return the result. If `read` raises Misread, raise it again with the path
    from the top of the file."""
    try:
        return read()
    except Misread as misread:
        path = misread.path[1:] if misread.path[:1] == ("spec",) else misread.path
        raise Misread((name, *path), misread.text) from None
