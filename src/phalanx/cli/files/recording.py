"""Write and read recordings of a scheduler: the events that it received and its decisions, step by step, as lines of
JSON. A step is one scheduling cycle.

The first line of the file names the format. Every other line is a step: its time, the policy (if it changed since the
step before), the events, and the actions. The scheduler appends a step before it performs the actions, so a recording
is complete even after a crash. The reader skips an incomplete last line. The first step of a scheduler process has a
mark, because the process begins with an empty cluster state. A recording contains names, labels and users of a cluster,
so only its owner may read it.

A step is not recorded if it has no events, no due timers and no decisions, because it changes nothing. If the file
cannot be written any more (for example because the disk is full), the recording ends, but the scheduler continues.

A *snapshot* is a recording with a single step. The events of this step describe the complete state of a cluster."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import msgspec

from phalanx.core.fold.fold import fold, fold_plan
from phalanx.core.fold.transitions import IllegalTransition
from phalanx.dialects.schema.recording import Unreadable, read, written
from phalanx.errors import PhalanxError
from phalanx.loop import decide_whole
from phalanx.model.event import Event, PolicySeen, Ticked
from phalanx.model.plan import Action, Plan
from phalanx.model.policy import Policy
from phalanx.scaling.cycle import before, with_nodes
from phalanx.state.cluster import Cluster

FORMAT = {"phalanx recording": 1}
CHUNK = 1 << 16  # bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedStep:
    """A step of a recording. `number`: the number of the step, from 1. `begins`: True if the cluster state was empty
    before the step. `now_s`: the time of the step, in seconds since the epoch. `actions`: the decisions; None if the
    recording has only the events."""

    number: int
    begins: bool
    now_s: float
    policy: Policy
    events: tuple[Event, ...]
    actions: tuple[Action, ...] | None


class RecordingWorld(Protocol):
    """The methods of `loop.World` that a `Recorder` needs."""

    def events(self) -> Sequence[Event]: ...
    def apply(self, plan: Plan) -> None: ...
    async def wait(self, timeout_s: float | None) -> None: ...


class Recorder:
    """A world that records each step and then passes the plan to another world. The loop must use the method `clock`,
    so that the decision and the recording have the same time. `complain`: a function that is called once with the
    reason if the recording ends early."""

    def __init__(
        self,
        world: RecordingWorld,
        file: Path,
        policy: Policy,
        clock: Callable[[], float],
        complain: Callable[[str], None] = lambda text: None,
    ) -> None:
        self._world, self._policy, self._clock, self._complain = world, policy, clock, complain
        self._told: Sequence[Event] = ()
        self._now_s: float | None = None
        self._wake_s: float | None = None  # the time at which the next cycle must begin, as the last plan requests
        self._begins = True
        self._path = file
        self._file: int | None = open_private(file)

    def events(self) -> Sequence[Event]:
        self._told, self._now_s = self._world.events(), None
        return self._told

    def clock(self) -> float:
        """Return the present time. The first time that is read after the events is recorded as the time of the step."""
        now_s = self._clock()
        if self._now_s is None:
            self._now_s = now_s
        return now_s

    def apply(self, plan: Plan) -> None:
        now_s = self._now_s or 0.0
        due = self._wake_s is not None and now_s >= self._wake_s
        self._wake_s = plan.wake_s
        if self._file is not None and (self._told or plan.actions or due):
            self._record(self._file, now_s, plan)
        self._world.apply(plan)

    async def wait(self, timeout_s: float | None) -> None:
        await self._world.wait(timeout_s)

    def close(self) -> None:
        if self._file is not None:
            os.close(self._file)
        self._file = None

    def _record(self, file: int, now_s: float, plan: Plan) -> None:
        policy = self._policy if self._begins else None
        try:
            append(file, step_of(now_s, policy, self._told, plan.actions, begins=self._begins))
            self._begins = False
        except OSError as error:
            self.close()
            self._complain(
                f"{self._path} cannot be written any more ({error.strerror or error}), so the recording ends. "
                "Scheduling goes on. To record again, free some disk space and restart the scheduler."
            )


def open_private(file: Path) -> int:
    """Open a recording for appending, and return its file descriptor. A new file can be read only by its owner. Remove
    the last line if it is incomplete because of a crash. Raises PhalanxError if the file cannot be written, or if it is
    not a recording; such a file is not changed."""
    try:
        if file.exists() and file.stat().st_size:
            next(lines(file), None)
        descriptor = os.open(file, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
        end = whole(descriptor)
        if end != os.fstat(descriptor).st_size:
            os.ftruncate(descriptor, end)
        if not end:
            os.write(descriptor, json.dumps(FORMAT).encode() + b"\n")
    except OSError as error:
        raise PhalanxError(
            f"{file} cannot be written: {error.strerror or error}. Name a file that can be written, in an "
            "existing folder."
        ) from error
    return descriptor


def require_recordable(file: Path, policy: Policy) -> None:
    """Check that the file can be written, and that the recording can contain the policy. Raises PhalanxError."""
    if policy.priority_function is not None:
        raise PhalanxError(
            f"{file}: a recording contains the policy, and a Python function cannot be recorded. "
            "Leave out --record, or give a policy in YAML."
        )
    os.close(open_private(file))


def whole(descriptor: int) -> int:
    """Return the offset of the end of the last complete line, in bytes."""
    end = os.fstat(descriptor).st_size
    while end:
        begin = max(0, end - CHUNK)
        found = os.pread(descriptor, end - begin, begin).rfind(b"\n")
        if found >= 0:
            return begin + found + 1
        end = begin
    return 0


def step_of(
    now_s: float, policy: Policy | None, events: Sequence[Event], actions: Sequence[Action] | None, *, begins: bool
) -> dict[str, object]:
    """Return a scheduling step as the JSON object that is written to the recording. `policy`: None if it is the same as
    in the step before. `actions`: None to record only the events."""
    step: dict[str, object] = {"now_s": now_s, "begins": begins}
    if policy is not None:
        step["policy"] = msgspec.to_builtins(policy)
    step["events"] = [written(event) for event in events]
    if actions is not None:
        step["actions"] = [written(action) for action in actions]
    return step


def append(descriptor: int, step: Mapping[str, object]) -> None:
    line = memoryview(msgspec.json.encode(step) + b"\n")
    while line:  # os.write may write only a part of the data
        line = line[os.write(descriptor, line) :]


def steps(file: Path) -> Iterator[RecordedStep]:
    """Yield the steps of the file. An incomplete last line is skipped. Raises PhalanxError with file and line."""
    policy: Policy | None = None
    for number, (line, text) in enumerate(lines(file), 1):
        try:
            plain = json.loads(text)
            actions = plain.get("actions")
            if policy is None or "policy" in plain:
                policy = msgspec.convert(plain["policy"], Policy)
            yield RecordedStep(
                number=number,
                begins=bool(plain["begins"]),
                now_s=float(plain["now_s"]),
                policy=policy,
                events=tuple(read(each) for each in plain["events"]),
                actions=None if actions is None else tuple(read(each) for each in actions),
            )
        except (KeyError, TypeError, AttributeError, ValueError, Unreadable, msgspec.ValidationError) as error:
            raise PhalanxError(
                f"{file}, line {line}: this is not a step of a recording ({error}), so this step and the steps after "
                "it cannot be replayed. Was the file edited, or written by another version?"
            ) from error


def decided(cluster: Cluster, step: RecordedStep) -> Plan:
    """Apply the step's events to the cluster state, decide again, apply the plan, and return it. If the recorded plan
    differs from the new decision, apply the recorded plan instead, so that one difference does not cause others. Raises
    PhalanxError if the events are impossible in this state."""
    try:
        fold(cluster, (PolicySeen(step.policy), Ticked(step.now_s), *step.events))
        late = before(cluster, step.policy, step.now_s)
        withdrawn, decision = decide_whole(cluster, step.policy, step.now_s)
        rest = decision.plan
        if cluster.columns.groups.known:  # node requests are decided after the plan was applied to the state
            ahead = cluster.copy()
            fold_plan(ahead, decision)
            rest = with_nodes(ahead, step.policy, step.now_s, rest)
            known, then = cluster.columns.groups, ahead.columns.groups
            known.idle_since_s, known.planned_s = dict(then.idle_since_s), then.planned_s
        plan = rest._replace(actions=(*late, *withdrawn, *rest.actions))
        if step.actions is None or step.actions == plan.actions:
            fold_plan(cluster, decision._replace(plan=rest))
        else:
            fold(cluster, step.actions)
    except (IllegalTransition, KeyError) as error:
        raise PhalanxError(
            f"step {step.number} of the recording cannot follow the steps before it ({error}). Were parts of the file "
            "removed?"
        ) from error
    return plan


def lines(file: Path) -> Iterator[tuple[int, str]]:
    """Yield (number, text) of each complete line after the first. Raises PhalanxError if the first line does not name
    the format, or if the file cannot be read."""
    try:
        with file.open(encoding="utf-8") as stream:
            try:
                head = json.loads(stream.readline())
            except ValueError:
                head = None
            if head != FORMAT:
                raise PhalanxError(
                    f"{file} is not a recording: its first line is not {json.dumps(FORMAT)}. Write a recording with "
                    "`phalanx snapshot FILE`, or with `--record FILE` of `phalanx scheduler` and `phalanx up`."
                )
            for number, text in enumerate(stream, 2):
                if text.endswith("\n"):
                    yield number, text
    except OSError as error:
        raise PhalanxError(f"{file} cannot be read: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise PhalanxError(f"{file} is not a recording, or damaged: {error}") from error
