"""Why a job waits, as a value with numbers; and times as reasons write them.

A reason is made where the decision is made. `code` is for machines and stable, `text` is one sentence for people,
`numbers` is what the sentence was made from. The command line, the pod condition, the event and the simulator show the
same reason.

Most reasons are never read, so the frequent ones are `LazyReason`: they hold the details as these were when the reason
was found, and are put into words when somebody reads them. Times are written in Coordinated Universal Time, since the
core knows no place.
"""

from __future__ import annotations

from collections.abc import Mapping
from copy import copy
from dataclasses import dataclass, field
from enum import StrEnum
from math import isfinite
from typing import Any, Protocol


class ReasonCode(StrEnum):
    """The stable codes of reasons. Users of kubectl and alerts match on them: new codes are added, old ones never
    renamed."""

    NO_ROOM = "NoRoom"  # would fit an emptier cluster
    NEVER_FITS = "NeverFits"  # larger than what any node, or all nodes together, could ever hold
    ROOM_KEPT = "RoomKept"  # would fit if nodes kept no room for others, as Koordinator's Reservations do
    NO_NODE_MATCHES = "NoNodeMatches"  # selector, affinity, taints or readiness leave no node
    WAITING_FOR_MEMBERS = "WaitingForMembers"  # a gang of several objects is not complete
    QUOTA = "NamespaceQuota"  # a ResourceQuota of its namespace would refuse its pods
    HELD = "Held"
    QUEUE_HELD = "QueueHeld"  # its queue, or one above, starts nothing now
    QUEUE_CLOSED = "QueueClosed"  # its queue, or one above, takes no new jobs
    QUEUE_MISCONFIGURED = "QueueMisconfigured"  # the tree contradicts itself here: a cycle, a parent that is not there
    QUEUE_LIMIT = "QueueLimit"  # the ceiling of its queue, or of one above, in room or in jobs
    QUEUE_QUOTA = "QueueQuota"  # its queue's guarantee is used, and there is nothing to borrow
    NEVER_WITHIN_LIMIT = "NeverWithinLimit"  # larger than its queue's ceiling, or than a limit per job
    USER_LIMIT = "UserLimit"  # what its user, or group, may have at a time
    BEHIND_HEAD = "BehindHead"  # its queue is strict, and the first of it waits
    RESERVED = "Reserved"  # it would delay a job before it, or run into a reservation
    BEGIN_TIME = "BeginTime"
    DEADLINE = "DeadlineMissed"  # it cannot end before its deadline any more
    DEPENDENCY = "Dependency"
    DEPENDENCY_NEVER = "DependencyNeverSatisfied"
    ARRAY_LIMIT = "ArrayLimit"
    PREEMPTING = "Preempting"  # it is promised room that others are leaving
    PREEMPTED = "Preempted"  # it ran, and gave way to another
    NO_DOMAIN = "NoDomain"  # no topology domain holds it, though the nodes together would
    PLACEMENT_RULES = "PlacementRules"  # nodes have room, but affinity, spread, ports, devices or zones leave none
    QUEUE_UNKNOWN = "QueueUnknown"
    BACKOFF = "Backoff"  # a start came to nothing; tried again at a stated time
    INVALID = "Invalid"  # what the manifest says cannot be carried out
    VOLUMES = "WaitingForVolumes"  # a claim is not there, not bound, or in use
    REJECTED = "Rejected"  # a node took a pod of it and then would not run it
    STALE = "StaleGang"  # too few of its pods ran for longer than its grace period
    UNSUPPORTED = "Unsupported"  # asks for something that fit does not understand: it fails closed


# Nothing that runs stands in the way: only the job, the settings or the nodes can mend it. Such a head holds up nobody.
NEVER = {
    ReasonCode.NEVER_FITS,
    ReasonCode.ROOM_KEPT,
    ReasonCode.NO_NODE_MATCHES,
    ReasonCode.NEVER_WITHIN_LIMIT,
    ReasonCode.INVALID,
    ReasonCode.UNSUPPORTED,
}
# What holds up nobody in a strict queue: it never starts, or lacks only what its own user or group may have.
ALONE = NEVER | {ReasonCode.USER_LIMIT}
# What others' going can mend.
SHORT = {
    ReasonCode.NO_ROOM,
    ReasonCode.NO_DOMAIN,
    ReasonCode.PLACEMENT_RULES,
    ReasonCode.QUEUE_QUOTA,
    ReasonCode.QUEUE_LIMIT,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Reason:
    """A reason why a job waits. `more_nodes_help`: a cluster autoscaler could mend it."""

    code: ReasonCode
    text: str
    numbers: Mapping[str, Any] = field(default_factory=dict, hash=False)
    more_nodes_help: bool = False

    def names(self, job: str) -> bool:
        """Return whether the reason says that the job holds what is lacking."""
        return job in self.numbers.get("holders", ())


class ReasonDetails(Protocol):
    """The facts that a lazy reason is made from: an immutable value, equal to another exactly if both say the same."""

    def text(self) -> str:
        """Return the sentence for people."""

    def numbers(self) -> Mapping[str, Any]:
        """Return what the sentence is made from."""

    def names(self, job: str) -> bool:
        """Return whether the reason says that the job holds what is lacking."""


class LazyReason(Reason):
    """A reason that is put into words when somebody reads it. To its readers it is a reason like any other."""

    __slots__ = ("_numbers", "_text", "facts")

    facts: ReasonDetails
    _text: str
    _numbers: Mapping[str, Any]

    def __init__(self, code: ReasonCode, facts: ReasonDetails, *, more_nodes_help: bool = False) -> None:
        put = object.__setattr__
        put(self, "code", code)
        put(self, "facts", facts)
        put(self, "more_nodes_help", more_nodes_help)

    @property
    def text(self) -> str:
        """The sentence for people, made when first read."""
        try:
            return self._text
        except AttributeError:
            object.__setattr__(self, "_text", self.facts.text())
            return self._text

    @property
    def numbers(self) -> Mapping[str, Any]:
        """Return the numbers of the sentence, made when first read."""
        try:
            return self._numbers
        except AttributeError:
            object.__setattr__(self, "_numbers", self.facts.numbers())
            return self._numbers

    def names(self, job: str) -> bool:
        return self.facts.names(job)

    def plain(self) -> Reason:
        """Return the same reason with its text and numbers written out."""
        return Reason(code=self.code, text=self.text, numbers=self.numbers, more_nodes_help=self.more_nodes_help)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, LazyReason):
            return self.code is other.code and self.facts == other.facts
        return isinstance(other, Reason) and self.code is other.code and self.plain() == other

    def __hash__(self) -> int:
        return hash(self.plain())

    def __reduce__(self) -> tuple[Any, ...]:
        return copy, (self.plain(),)


@dataclass(frozen=True, slots=True, kw_only=True)
class StartForecast:
    """A forecast of a waiting job's start. All times are in seconds since the epoch; infinity: perhaps never.

    A forecast is no part of the reason: it changes with every end, and reasons are written to objects.

    `start_s`: the job starts earlier or later with the same probability.
    `likely_s`: it starts in this interval with a probability of 50 %.
    `nearly_sure_s`: with a probability of 90 %.
    `latest_s`: when it starts if all jobs run as long as they may and nobody overtakes it.
    `after`: the job whose end it waits for in that case."""

    start_s: float
    likely_s: tuple[float, float]
    nearly_sure_s: tuple[float, float]
    latest_s: float
    after: str = ""


DAY_S = 86_400


def format_time(at_s: float, now_s: float) -> str:
    """Return `02:28:23 UTC`, with the date before it if that is not the day of `now_s`."""
    if not isfinite(at_s):
        return "never" if at_s > 0 else "at once"
    days = int(at_s) // DAY_S
    return ("" if days == now_s // DAY_S else f"{format_date(days)} ") + format_time_of_day(at_s)


def format_date(days: int) -> str:
    """Return the date so many days after the epoch, in the Gregorian calendar, for any year.

    The formula is civil_from_days of Hinnant, "chrono-Compatible Low-Level Date Algorithms": eras of 400 years, and
    years that begin in March."""
    era, day_of_era = divmod(days + 719_468, 146_097)
    year_of_era = (day_of_era - day_of_era // 1460 + day_of_era // 36_524 - day_of_era // 146_096) // 365
    day_of_year = day_of_era - (365 * year_of_era + year_of_era // 4 - year_of_era // 100)
    month = (5 * day_of_year + 2) // 153
    day = day_of_year - (153 * month + 2) // 5 + 1
    year = year_of_era + 400 * era + (month >= 10)
    return f"{year:04}-{(month + 2) % 12 + 1:02}-{day:02}"


def format_time_of_day(at_s: float) -> str:
    """Return `02:28:23 UTC`, of whatever day."""
    seconds = int(at_s) % DAY_S
    return f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02} UTC"


@dataclass(frozen=True, slots=True)
class NotEligible:
    """Why a job is not eligible to start, and when to look at it again.

    `again_s`: seconds since the epoch; None: only an event can mend it."""

    reason: Reason
    again_s: float | None = None
