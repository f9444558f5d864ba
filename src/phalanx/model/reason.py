"""The reason why a job waits, as a value with numbers. This module also formats the times in reasons.

The code that makes a decision creates the reason. `code` is stable and meant for programs, `text` is one sentence for
people, and `numbers` has the values in the sentence. The command line, the pod condition, the event and the simulator
show the same reason.

Most reasons are never read. So frequent reasons are of the class `LazyReason`: they store the facts on which the
decision was based, and create the text only when it is first read. Times are in Coordinated Universal Time, because the
core has no time zone.
"""

from __future__ import annotations

from collections.abc import Mapping
from copy import copy
from dataclasses import dataclass, field
from enum import StrEnum
from math import isfinite
from typing import Any, Protocol


class ReasonCode(StrEnum):
    """The stable codes of reasons. Scripts and alerts match on these codes, so new codes may be added, but no code is
    renamed."""

    NO_ROOM = "NoRoom"  # the job would fit if fewer pods were running
    NEVER_FITS = "NeverFits"  # the job is larger than any node, or larger than all nodes together
    ROOM_KEPT = "RoomKept"  # the job would fit if Koordinator's Reservations reserved no parts of nodes
    NO_NODE_MATCHES = "NoNodeMatches"  # no ready node matches the selector, the affinity and the tolerations
    WAITING_FOR_MEMBERS = "WaitingForMembers"  # the job is a gang of several objects, and some are missing
    QUOTA = "NamespaceQuota"  # a ResourceQuota of the namespace would refuse the pods
    HELD = "Held"
    QUEUE_HELD = "QueueHeld"  # the queue, or a queue above it, starts no jobs now
    QUEUE_CLOSED = "QueueClosed"  # the queue, or a queue above it, accepts no new jobs
    QUEUE_MISCONFIGURED = "QueueMisconfigured"  # the queue tree has an error, such as a cycle
    QUEUE_LIMIT = "QueueLimit"  # a limit on amounts or jobs of the queue, or of a queue above it, is reached
    QUEUE_QUOTA = "QueueQuota"  # the queue's guarantee is used, and no quota can be borrowed
    # the job is larger than the queue's limit, or larger than a limit for each job
    NEVER_WITHIN_LIMIT = "NeverWithinLimit"
    USER_LIMIT = "UserLimit"  # a limit of the user or the group is reached
    BEHIND_HEAD = "BehindHead"  # the queue is strict, and its first job waits
    # the job would delay an earlier job that has a reservation, or overlap an advance reservation
    RESERVED = "Reserved"
    BEGIN_TIME = "BeginTime"
    DEADLINE = "DeadlineMissed"  # the job can no longer end before its deadline
    DEPENDENCY = "Dependency"
    DEPENDENCY_NEVER = "DependencyNeverSatisfied"
    ARRAY_LIMIT = "ArrayLimit"
    PREEMPTING = "Preempting"  # the job is nominated to nodes that victims are leaving
    PREEMPTED = "Preempted"  # the job ran and was preempted
    WAITING_FOR_NODES = "WaitingForNodes"  # nodes were requested for the job, and have not arrived
    NO_DOMAIN = "NoDomain"  # no topology domain has enough capacity for the job, although all nodes together do
    # nodes with enough capacity exist, but affinity, spread, ports, devices or zones exclude them
    PLACEMENT_RULES = "PlacementRules"
    QUEUE_UNKNOWN = "QueueUnknown"
    BACKOFF = "Backoff"  # a start failed; it is tried again at a stated time
    INVALID = "Invalid"  # the manifest is invalid
    VOLUMES = "WaitingForVolumes"  # a volume claim is missing, unbound, or in use
    REJECTED = "Rejected"  # the kubelet of a node refused to run a bound pod of the job
    STALE = "StaleGang"  # the gang ran with too few pods for longer than its grace period
    UNSUPPORTED = "Unsupported"  # the job requires a feature that is not supported


# Reasons that do not depend on running pods: the job can start only after a change of the job, the settings or the
# nodes. If the first job of a strict queue has one of these reasons, it does not block the queue.
NEVER = {
    ReasonCode.NEVER_FITS,
    ReasonCode.ROOM_KEPT,
    ReasonCode.NO_NODE_MATCHES,
    ReasonCode.NEVER_WITHIN_LIMIT,
    ReasonCode.INVALID,
    ReasonCode.UNSUPPORTED,
}
# A job with one of these reasons does not block a strict queue: it can never start, or only a limit of its own user or
# group prevents the start.
ALONE = NEVER | {ReasonCode.USER_LIMIT}
# Reasons that may no longer apply when other jobs end.
SHORT = {
    ReasonCode.NO_ROOM,
    ReasonCode.NO_DOMAIN,
    ReasonCode.PLACEMENT_RULES,
    ReasonCode.QUEUE_QUOTA,
    ReasonCode.QUEUE_LIMIT,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Reason:
    """A reason why a job waits. `more_nodes_help`: whether the job could start with more nodes, so that a cluster
    autoscaler may react. `brief`: whether the reason usually applies only for seconds, so that it is not written on
    objects immediately."""

    code: ReasonCode
    text: str
    numbers: Mapping[str, Any] = field(default_factory=dict, hash=False)
    more_nodes_help: bool = False
    brief: bool = False

    def names(self, job: str) -> bool:
        """Return whether the reason names the job as one of those that hold the missing amounts."""
        return job in self.numbers.get("holders", ())


class ReasonDetails(Protocol):
    """The facts of a lazy reason, as an immutable value. Two of these values are equal exactly if their texts are
    equal."""

    def text(self) -> str:
        """Return the reason as a sentence that users read."""

    def numbers(self) -> Mapping[str, Any]:
        """Return the numbers that the sentence `text` contains."""

    def names(self, job: str) -> bool:
        """Return whether the reason names the job as one of those that hold the missing amounts."""


class LazyReason(Reason):
    """A reason whose text and numbers are created when they are first read. In all other respects it behaves like
    a `Reason`."""

    __slots__ = ("_numbers", "_text", "facts")

    facts: ReasonDetails
    _text: str
    _numbers: Mapping[str, Any]

    def __init__(self, code: ReasonCode, facts: ReasonDetails, *, more_nodes_help: bool = False) -> None:
        put = object.__setattr__
        put(self, "code", code)
        put(self, "facts", facts)
        put(self, "more_nodes_help", more_nodes_help)
        put(self, "brief", False)

    @property
    def text(self) -> str:
        """The reason as a sentence for users, which is created when it is first read."""
        try:
            return self._text
        except AttributeError:
            object.__setattr__(self, "_text", self.facts.text())
            return self._text

    @property
    def numbers(self) -> Mapping[str, Any]:
        """The numbers in the sentence `text`, which are created when they are first read."""
        try:
            return self._numbers
        except AttributeError:
            object.__setattr__(self, "_numbers", self.facts.numbers())
            return self._numbers

    def names(self, job: str) -> bool:
        return self.facts.names(job)

    def plain(self) -> Reason:
        """Return a plain `Reason` with the same code, text and numbers."""
        return Reason(code=self.code, text=self.text, numbers=self.numbers, more_nodes_help=self.more_nodes_help)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, LazyReason):
            return self.code is other.code and self.facts == other.facts
        return isinstance(other, Reason) and self.code is other.code and self.plain() == other

    def __hash__(self) -> int:
        return hash(self.plain())

    def __reduce__(self) -> tuple[object, ...]:
        return copy, (self.plain(),)


@dataclass(frozen=True, slots=True, kw_only=True)
class StartForecast:
    """A forecast of a pending job's start. All times are in seconds since the epoch; infinity means that the job may
    never start.

    A forecast changes whenever a job ends. So it is not part of the reason, because every change of a reason is written
    to objects.
    `start_s`: the median of the predicted start times.
    `likely_s`: the interval that contains the start with a probability of 50 %.
    `nearly_sure_s`: the interval that contains the start with a probability of 90 %.
    `latest_s`: the start if all jobs run until their limits, and if no job that is submitted later starts before this
    job.
    `after`: the job that would end last before `latest_s`; empty if there is no such job."""

    start_s: float
    likely_s: tuple[float, float]
    nearly_sure_s: tuple[float, float]
    latest_s: float
    after: str = ""


DAY_S = 86_400


def format_time(at_s: float, now_s: float) -> str:
    """Return the time in the form `02:28:23 UTC`. If the time is not on the day of `now_s`, the date is written before
    the time."""
    if not isfinite(at_s):
        return "never" if at_s > 0 else "at once"
    days = int(at_s) // DAY_S
    return ("" if days == now_s // DAY_S else f"{format_date(days)} ") + format_time_of_day(at_s)


def format_date(days: int) -> str:
    """Return the date that is `days` days after the epoch, in the Gregorian calendar, for any year.

    The formula is civil_from_days of Hinnant, "chrono-Compatible Low-Level Date Algorithms": it counts in eras of 400
    years, and in years that begin in March."""
    era, day_of_era = divmod(days + 719_468, 146_097)
    year_of_era = (day_of_era - day_of_era // 1460 + day_of_era // 36_524 - day_of_era // 146_096) // 365
    day_of_year = day_of_era - (365 * year_of_era + year_of_era // 4 - year_of_era // 100)
    month = (5 * day_of_year + 2) // 153
    day = day_of_year - (153 * month + 2) // 5 + 1
    year = year_of_era + 400 * era + (month >= 10)
    return f"{year:04}-{(month + 2) % 12 + 1:02}-{day:02}"


def format_time_of_day(at_s: float) -> str:
    """Return the time of day in the form `02:28:23 UTC`."""
    seconds = int(at_s) % DAY_S
    return f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02} UTC"


@dataclass(frozen=True, slots=True)
class NotEligible:
    """The reason why a job is not eligible to start. `again_s`: when to check again (seconds since the epoch); None if
    the result can only change after an event."""

    reason: Reason
    again_s: float | None = None
