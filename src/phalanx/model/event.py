"""What happened: the only way anything enters the book. A world tells, `core.fold.fold` takes in.

Each event states a fact of the world and is idempotent: told twice it changes nothing the second time. `attempt`
counts the starts of a job, so that an answer to an earlier start is recognised and ignored.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from phalanx.model.job import Job, Outcome, Phase, Placement, Slot
from phalanx.model.node import Flavor, Node, Reservation
from phalanx.model.pod import Amounts, HostPort, PodAffinityTerm
from phalanx.model.policy import Policy
from phalanx.model.queue import Queue
from phalanx.model.reason import Reason


@dataclass(frozen=True, slots=True)
class NodeSeen:
    """A node is new, or anything about it changed."""

    node: Node


@dataclass(frozen=True, slots=True)
class NodeGone:
    """The node object is deleted. What ran there stays charged to it until each pod is gone."""

    name: str


@dataclass(frozen=True, slots=True)
class QueueSeen:
    queue: Queue


@dataclass(frozen=True, slots=True)
class QueueGone:
    name: str


@dataclass(frozen=True, slots=True)
class FlavorSeen:
    flavor: Flavor


@dataclass(frozen=True, slots=True)
class FlavorGone:
    name: str


@dataclass(frozen=True, slots=True)
class ReservationSeen:
    reservation: Reservation


@dataclass(frozen=True, slots=True)
class ReservationGone:
    name: str


@dataclass(frozen=True, slots=True)
class Ticked:
    """It is `now_s` (seconds since the epoch). The loop tells it before what happened since the last cycle; time that
    goes backwards is ignored."""

    now_s: float


@dataclass(frozen=True, slots=True)
class PolicySeen:
    """How it is decided from now on. The loop tells it in every step; it changes nothing if it is the same."""

    policy: Policy


@dataclass(frozen=True, slots=True)
class UsageTold:
    """What a user has used in a queue in the past, as remembered by others (after a restart): billed units times
    seconds, decayed to `at_s`. It replaces what the book knew, and is told before the jobs that run are adopted: what
    they have used since then is added."""

    queue: str
    user: str
    usage: float
    at_s: float


@dataclass(frozen=True, slots=True)
class OutcomeTold:
    """A job that is no longer live ended so. Told after a restart, for those that wait for it."""

    job: str
    outcome: Outcome


@dataclass(frozen=True, slots=True)
class Submitted:
    """A job waits, new or changed while it waits. Of a started job nothing is changed by this."""

    job: Job


@dataclass(frozen=True, slots=True)
class Adopted:
    """The whole truth about a started job, replacing what was known: after a restart, or when the real pods show
    another shape than was planned. `placements` are charged as they stand (they may exceed a node: that is reported,
    not refused); `open` slots want a node. `started_s`: when it started (seconds since the epoch), as its Start said;
    `flavors`: the flavor of each role, as its Start said, if any."""

    job: Job
    attempt: int
    phase: Phase
    placements: tuple[Placement, ...]
    open: tuple[Slot, ...] = ()
    started_s: float = 0.0
    flavors: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Opened:
    """Slots of a started job want a node: a pod by pod job's pod exists, a pod's node was lost or refused it, or the
    job grew. What such a slot held is given back."""

    job: str
    slots: tuple[Slot, ...]


@dataclass(frozen=True, slots=True)
class Released:
    """Slots that the started job can no longer use (the pod finished, the job shrank); their room is free."""

    job: str
    slots: tuple[Slot, ...]


@dataclass(frozen=True, slots=True)
class Started:
    """Every pod of the job's minimum is bound."""

    job: str
    attempt: int


@dataclass(frozen=True, slots=True)
class Refused:
    """A start came to nothing and was taken back whole (also a running job that went back whole): the job waits
    again, not before `not_before_s` (seconds since the epoch)."""

    job: str
    attempt: int
    reason: Reason
    not_before_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Finished:
    """The job is over or deleted: it and all it held leave the book."""

    job: str
    outcome: Outcome = Outcome.SUCCEEDED


@dataclass(frozen=True, slots=True)
class Occupied:
    """A pod that is not ours to place holds room on a node (bound by others, mirror, DaemonSet, nominated): exactly
    `requests`, which say the one of `pods` themselves. The rest is as in `Shape`: what others see of it, and what it
    wants of them."""

    pod: str  # its uid
    node: str
    requests: Amounts
    labels: tuple[tuple[str, str], ...] = ()
    namespace: str = ""
    ports: tuple[HostPort, ...] = ()
    near: tuple[PodAffinityTerm, ...] = ()
    away: tuple[PodAffinityTerm, ...] = ()


@dataclass(frozen=True, slots=True)
class Vacated:
    """That pod's room is free."""

    pod: str


Event: TypeAlias = (
    NodeSeen
    | NodeGone
    | QueueSeen
    | QueueGone
    | FlavorSeen
    | FlavorGone
    | ReservationSeen
    | ReservationGone
    | Ticked
    | PolicySeen
    | UsageTold
    | OutcomeTold
    | Submitted
    | Adopted
    | Opened
    | Released
    | Started
    | Refused
    | Finished
    | Occupied
    | Vacated
)
