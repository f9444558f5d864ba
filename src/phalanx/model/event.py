"""What happened: the only way anything enters the cluster's state. A world tells events, `core.fold.fold` takes them
in.

Each event states a fact of the world and is idempotent: told twice it changes nothing the second time. `attempt` counts
the starts of a job, so that an answer to an earlier start is recognised and ignored.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from phalanx.model.job import Job, Outcome, Phase, Placement, Slot
from phalanx.model.node import Flavor, Node, Reservation, Topology
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
    """The node object is deleted. Pods that ran there stay charged to it until each of them is gone."""

    name: str


@dataclass(frozen=True, slots=True)
class QueueSeen:
    """A queue is new, or its settings changed."""

    queue: Queue


@dataclass(frozen=True, slots=True)
class QueueGone:
    """A queue is deleted."""

    name: str


@dataclass(frozen=True, slots=True)
class FlavorSeen:
    """A flavor is new, or changed."""

    flavor: Flavor


@dataclass(frozen=True, slots=True)
class FlavorGone:
    """A flavor is deleted."""

    name: str


@dataclass(frozen=True, slots=True)
class TopologiesSeen:
    """The topologies that objects of the cluster declare are these now, besides those of the policy."""

    topologies: tuple[Topology, ...]


@dataclass(frozen=True, slots=True)
class ReservationSeen:
    """An advance reservation is new, or changed."""

    reservation: Reservation


@dataclass(frozen=True, slots=True)
class ReservationGone:
    """An advance reservation is deleted."""

    name: str


@dataclass(frozen=True, slots=True)
class Ticked:
    """The time is `now_s` (seconds since the epoch). The loop tells it before the events since the last cycle."""

    now_s: float


@dataclass(frozen=True, slots=True)
class PolicySeen:
    """The policy from now on. The loop tells it when it is another."""

    policy: Policy


@dataclass(frozen=True, slots=True)
class UsageTold:
    """The past usage of a user in a queue, as remembered across a restart: billed units times seconds, decayed to
    `at_s`.

    It replaces what was known, and is told before running jobs are adopted: their usage since then is added."""

    queue: str
    user: str
    usage: float
    at_s: float


@dataclass(frozen=True, slots=True)
class OutcomeTold:
    """The outcome of a job that is no longer live. It is told after a restart, for jobs that depend on it."""

    job: str
    outcome: Outcome


@dataclass(frozen=True, slots=True)
class RunTold:
    """A job that is no longer live ran for `run_s` seconds. It is told once, after a restart, of the jobs that the
    world still knows, in the order of their ends: it says how long others may run."""

    job: Job
    run_s: float


@dataclass(frozen=True, slots=True)
class Submitted:
    """A job waits: it is new, or changed while it waits. A started job is not changed by this event."""

    job: Job


@dataclass(frozen=True, slots=True)
class Adopted:
    """The whole truth about a started job, which replaces what was known: after a restart, or when the real pods differ
    from the plan.

    `placements`: charged as they stand; an overcommitted node is reported, not refused.
    `open`: slots that want a node.
    `started_s`, `flavors`: as the job's `Start` said.
    `leaving`: placed slots that were told to be given up, and are not gone yet. (Of a job that stops, all are.)"""

    job: Job
    attempt: int
    phase: Phase
    placements: tuple[Placement, ...]
    open: tuple[Slot, ...] = ()
    started_s: float = 0.0
    flavors: tuple[str, ...] = ()
    leaving: tuple[Slot, ...] = ()


@dataclass(frozen=True, slots=True)
class Opened:
    """Slots of a started job want a node: the pod of a pod-by-pod job exists, a pod lost its node or was refused there,
    or the job grew. What such a slot held is released."""

    job: str
    slots: tuple[Slot, ...]


@dataclass(frozen=True, slots=True)
class Released:
    """Slots that the started job no longer uses: the pod finished, or the job shrank. What they held is free."""

    job: str
    slots: tuple[Slot, ...]


@dataclass(frozen=True, slots=True)
class Started:
    """Every pod of the job's minimum is bound."""

    job: str
    attempt: int


@dataclass(frozen=True, slots=True)
class Refused:
    """A start failed and was taken back whole; or a running job was stopped whole. The job waits again, not before
    `not_before_s` (seconds since the epoch)."""

    job: str
    attempt: int
    reason: Reason
    not_before_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Finished:
    """The job is over, or deleted. All that it held is free."""

    job: str
    outcome: Outcome = Outcome.SUCCEEDED


@dataclass(frozen=True, slots=True)
class Occupied:
    """A foreign pod (bound by another scheduler, static, of a DaemonSet, nominated) holds exactly `requests` on a node,
    in which the one of `pods` is named, and those of `devices`.

    The other fields are as in `Shape`: how terms of other pods select it, and what it wants of them."""

    pod: str  # its uid
    node: str
    requests: Amounts
    labels: tuple[tuple[str, str], ...] = ()
    namespace: str = ""
    ports: tuple[HostPort, ...] = ()
    near: tuple[PodAffinityTerm, ...] = ()
    away: tuple[PodAffinityTerm, ...] = ()
    devices: tuple[str, ...] = ()  # by name, each whole


@dataclass(frozen=True, slots=True)
class Vacated:
    """A foreign pod is gone; what it held is free."""

    pod: str


Event: TypeAlias = (
    NodeSeen
    | NodeGone
    | QueueSeen
    | QueueGone
    | FlavorSeen
    | FlavorGone
    | TopologiesSeen
    | ReservationSeen
    | ReservationGone
    | Ticked
    | PolicySeen
    | UsageTold
    | OutcomeTold
    | RunTold
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
