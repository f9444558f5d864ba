"""What to do: the answer of `core.decide`, folded into the book at once and then applied by a world."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from phalanx.model.job import Placement
from phalanx.model.reason import Reason


@dataclass(frozen=True, slots=True)
class Start:
    """Start a queued job: every role's minimum is in `placements` (as many more as fit, up to its count). In a queue
    with `gang=False` there are none: its pods are placed one by one as they are `Opened`."""

    job: str
    attempt: int
    placements: tuple[Placement, ...]


@dataclass(frozen=True, slots=True)
class Place:
    """Give open slots of a started job their nodes."""

    job: str
    placements: tuple[Placement, ...]


@dataclass(frozen=True, slots=True)
class Wait:
    """A job waits for a new reason, or a started one's open slots do."""

    job: str
    reason: Reason


Action: TypeAlias = Start | Place | Wait


@dataclass(frozen=True, slots=True)
class Plan:
    """`wake_s`: decide again at that time (seconds since the epoch) even if nothing happens; None: no need."""

    actions: tuple[Action, ...] = ()
    wake_s: float | None = None
