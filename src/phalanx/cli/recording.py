"""Recordings of a scheduler: what it was told and what it decided, step by step, as lines of JSON.

The first line names the format; every other is a step: when it was, how to decide, the events, and the actions. A
recording is appended to while the scheduler runs, each step before it is carried out, so that what stands in it after
a crash is what was decided until then; a last line that was cut short is left out when it is read. Where a scheduler
began, with an empty book, its step says so. It holds names, labels and users of a cluster, so only its owner may read
it.

A *snapshot* is a recording of one step whose events are all that a cluster is now."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import msgspec

from phalanx.dialects.recording import Unreadable, read, written
from phalanx.errors import PhalanxError
from phalanx.model.event import Event
from phalanx.model.plan import Action, Plan
from phalanx.model.policy import Policy

FORMAT = {"phalanx recording": 1}


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """`number` counts from 1. `now_s`: seconds since the epoch. `begins`: the book was empty before. `actions`: None
    if only the events are known."""

    number: int
    begins: bool
    now_s: float
    policy: Policy
    events: tuple[Event, ...]
    actions: tuple[Action, ...] | None


class World(Protocol):
    """`loop.World`."""

    def events(self) -> Sequence[Event]: ...
    def apply(self, plan: Plan) -> None: ...
    async def wait(self, timeout_s: float | None) -> None: ...


class Recorder:
    """A world that writes down what is asked of another before it passes it on. Its `clock` belongs to it, because a
    step is decided at the time that was read for it."""

    def __init__(self, world: World, file: Path, policy: Policy, clock: Callable[[], float]) -> None:
        self._world, self._policy, self._clock = world, policy, clock
        self._told: Sequence[Event] = ()
        self._now_s: float | None = None
        self._begins = True
        self._file = open_private(file)

    def events(self) -> Sequence[Event]:
        self._told, self._now_s = self._world.events(), None
        return self._told

    def clock(self) -> float:
        """The first reading after the events is the step's."""
        now_s = self._clock()
        if self._now_s is None:
            self._now_s = now_s
        return now_s

    def apply(self, plan: Plan) -> None:
        if self._told or plan.actions:
            step = step_of(self._now_s or 0.0, self._policy, self._told, plan.actions, begins=self._begins)
            append(self._file, step)
            self._begins = False
        self._world.apply(plan)

    async def wait(self, timeout_s: float | None) -> None:
        await self._world.wait(timeout_s)

    def close(self) -> None:
        os.close(self._file)


def open_private(file: Path) -> int:
    """For appending, readable by its owner only; a file that is no recording is not touched."""
    try:
        if file.exists() and file.stat().st_size:
            next(lines(file), None)
        descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        if not os.fstat(descriptor).st_size:
            os.write(descriptor, json.dumps(FORMAT).encode() + b"\n")
    except OSError as error:
        raise PhalanxError(f"{file} cannot be recorded to: {error.strerror or error}") from error
    return descriptor


def step_of(
    now_s: float, policy: Policy, events: Sequence[Event], actions: Sequence[Action] | None, *, begins: bool
) -> dict[str, Any]:
    """As it is written."""
    step: dict[str, Any] = {"now_s": now_s, "begins": begins, "policy": msgspec.to_builtins(policy)}
    step["events"] = [written(event) for event in events]
    if actions is not None:
        step["actions"] = [written(action) for action in actions]
    return step


def append(descriptor: int, step: Mapping[str, Any]) -> None:
    line = memoryview(json.dumps(step, separators=(",", ":")).encode() + b"\n")
    while line:  # a write may be short
        line = line[os.write(descriptor, line) :]


def steps(file: Path) -> Iterator[Step]:
    """Raises PhalanxError with file and line. A last line without an end is passed over: its writer was stopped."""
    for number, (line, text) in enumerate(lines(file), 1):
        try:
            plain = json.loads(text)
            actions = plain.get("actions")
            yield Step(
                number=number,
                begins=bool(plain["begins"]),
                now_s=float(plain["now_s"]),
                policy=msgspec.convert(plain["policy"], Policy),
                events=tuple(read(each) for each in plain["events"]),
                actions=None if actions is None else tuple(read(each) for each in actions),
            )
        except (KeyError, TypeError, AttributeError, ValueError, Unreadable, msgspec.ValidationError) as error:
            raise PhalanxError(
                f"{file}, line {line}: this is no step of a recording ({error}), so it and what follows cannot be "
                "replayed. Was it edited, or made by another version?"
            ) from error


def lines(file: Path) -> Iterator[tuple[int, str]]:
    """(number, text) of the lines behind the first, which must name the format."""
    try:
        with file.open(encoding="utf-8") as stream:
            try:
                head = json.loads(stream.readline())
            except ValueError:
                head = None
            if head != FORMAT:
                raise PhalanxError(
                    f"{file} is no recording: its first line is not {json.dumps(FORMAT)}. Make one with "
                    "`phalanx snapshot FILE`, or with `--record FILE` of `phalanx scheduler` and `phalanx up`."
                )
            for number, text in enumerate(stream, 2):
                if text.endswith("\n"):
                    yield number, text
    except (OSError, UnicodeDecodeError) as error:
        raise PhalanxError(f"{file} cannot be read: {error}") from error
