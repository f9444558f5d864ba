"""The plan of one cycle. The scheduler's main loop applies the plan to the cluster state immediately. Then the world
carries the plan out.

Actions are named tuples, because several of them are created for every job, and creating a frozen dataclass takes three
times as long.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple, TypeAlias

from phalanx.model.job import Placement, Slot
from phalanx.model.reason import Reason


class Start(NamedTuple):
    """A queued job starts. `placements`: the minimum of every role, and as many further pods as fit.

    In a queue with `gang=False`, `placements` is empty: each pod is placed after the event `Opened` for its slot."""

    job: str
    attempt: int
    placements: tuple[Placement, ...]
    at_s: float = 0.0  # the time of the decision, seconds since the epoch
    flavors: tuple[str, ...] = ()  # the flavor of each role's pods; empty if the queue names no flavors
    limit_s: float | None = None  # the time limit of the job or, if it has none, of its queue
    # True if the job starts before an earlier request that has a reservation; it does not delay this reservation
    backfilled: bool = False


class Place(NamedTuple):
    """Open slots of a started job get their nodes."""

    job: str
    placements: tuple[Placement, ...]


class Wait(NamedTuple):
    """The reason why a job waits has changed. For a started job, this is the reason why its open slots wait."""

    job: str
    reason: Reason


class Preempt(NamedTuple):
    """A whole started job is preempted: it is stopped, and waits again with its original submission time.

    Its amounts stay charged until the world reports that its pods are gone (`Refused`).
    `by`: the preemptor.
    `grace_s`: the grace period of the job's pods; None if each pod has its own grace period."""

    job: str
    attempt: int
    by: str
    reason: Reason
    grace_s: float | None = None


class Shrink(NamedTuple):
    """A started job releases slots above its minimum. Their amounts stay charged until the event `Released` arrives."""

    job: str
    slots: tuple[Slot, ...]
    by: str
    reason: Reason
    grace_s: float | None = None


class Nominate(NamedTuple):
    """A queued job, or the open slots of a running job, are nominated to nodes that victims are leaving (like a pod's
    nominatedNodeName, for a gang).

    The nodes are charged immediately, so no other job is placed on them. A `Nominate` without placements withdraws the
    last nomination."""

    job: str
    placements: tuple[Placement, ...]
    flavors: tuple[str, ...] = ()
    until_s: float = 0.0  # at this time the nomination is withdrawn, unless the victims have left


class RequestNodes(NamedTuple):
    """Nodes are requested from the provider of a node group. All times are in seconds since the epoch.

    `job`: the job that needs the nodes; empty if they are requested because the group has fewer nodes than its minimum.
    `nodes`: names for the requested nodes. If the provider gives names itself, the nodes arrive under other names.
    `until_s`: the time at which the request counts as failed for nodes that have not arrived."""

    job: str
    group: str
    nodes: tuple[str, ...]
    requested_s: float
    expected_s: float
    until_s: float


class ReleaseNodes(NamedTuple):
    """The provider removes these empty nodes of a group. If a node was requested and has not arrived, its request is
    cancelled.

    `job`: always empty, because the nodes belong to no job.
    `late`: whether the nodes did not arrive in time. In this case no further nodes are requested from the group for a
    while."""

    job: str
    group: str
    nodes: tuple[str, ...]
    late: bool = False


JobAction: TypeAlias = Start | Place | Wait | Preempt | Shrink | Nominate
Action: TypeAlias = JobAction | RequestNodes | ReleaseNodes

# The names of actions in recordings and metrics. They stay the same if a class is renamed.
ACTION_NAMES: Final[Mapping[type[Action], str]] = {
    Start: "Start",
    Place: "Place",
    Wait: "Wait",
    Preempt: "Preempt",
    Shrink: "Shrink",
    Nominate: "Promise",
    RequestNodes: "RequestNodes",
    ReleaseNodes: "ReleaseNodes",
}


class FirstReservation(NamedTuple):
    """The first backfill reservation of a cycle: its job or open slot, and the time from which nodes are reserved for
    it (seconds since the epoch)."""

    job: str
    slot: Slot | None
    at_s: float


class Plan(NamedTuple):
    """The plan of one cycle. `wake_s`: the time (seconds since the epoch) at which the next cycle must run even if no
    event arrives; None if no cycle is needed before the next event. `reserved`: the first backfill reservation that
    exists after the cycle; None if there is no reservation."""

    actions: tuple[Action, ...] = ()
    wake_s: float | None = None
    reserved: FirstReservation | None = None
