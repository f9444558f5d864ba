"""A way to schedule, as a file: `policy` (as `phalanx scheduler --policy` reads it) and `queues`, each a `name` and the
fields of the Queue resource's spec.

`each` is the spec of a queue. It is used for every queue that the trace names and `queues` does not contain. Its
`parent` may be one of `queues`. With `flat: true` all jobs go into the policy's default queue, and the queues in the
trace are ignored."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from phalanx.cli.files import priority_file
from phalanx.cli.files.placed_file import read_placed
from phalanx.dialects.schema.fields import Fields, Misread
from phalanx.dialects.schema.policy import read_policy
from phalanx.dialects.schema.queue import read_queue
from phalanx.errors import PhalanxError
from phalanx.model.queue import Queue
from phalanx.simulator.run.setup import ONE, Setup, built_in

Read = TypeVar("Read")

SUFFIXES = {".yaml", ".yml", ".json"}


def setup_of(name: str) -> Setup:
    """Return the setup of a built-in name or a file. Raises PhalanxError."""
    file = Path(name)
    if file.suffix == priority_file.SUFFIX:
        return _in_python(file)
    return read_placed(file, lambda said: _setup(said, file.stem)) if file.suffix in SUFFIXES else built_in(name)


def _in_python(file: Path) -> Setup:
    """Return the setup of a file with a priority function. Unless the file defines queues, it has one queue with that
    priority as its order."""
    read = priority_file.read_priority_file(file)
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
    """Call `read` and return the result. Raises `Misread` with the path from the top of the file."""
    try:
        return read()
    except Misread as misread:
        path = misread.path[1:] if misread.path[:1] == ("spec",) else misread.path
        raise Misread((name, *path), misread.text) from None
