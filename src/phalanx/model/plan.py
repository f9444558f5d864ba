"""The plan of one cycle. The loop folds it into the state at once; then a world applies it.

Actions are named tuples, because several are created for every job and a frozen dataclass costs three times as much.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple, TypeAlias

from phalanx.model.job import Placement, Slot
from phalanx.model.reason import Reason
from phalanx.state.pending.pending import PlacementClassKey, Search
from phalanx.state.pending.request_class import Request, RequestClassKey


class Start(NamedTuple):
    """A queued job starts. `placements`: the minimum of every role, and as many further pods as fit.

    In a queue with `gang=False`, `placements` is empty: each pod is placed when its slot is `Opened`."""

    job: str
    attempt: int
    placements: tuple[Placement, ...]
    at_s: float = 0.0  # the time of the decision, seconds since the epoch
    flavors: tuple[str, ...] = ()  # the flavor of each role's pods; empty if the queue names no flavors
    limit_s: float | None = None  # the time limit: the job's, otherwise its queue's
    backfilled: bool = False  # it starts before an earlier request, whose reservation it does not delay


class Place(NamedTuple):
    """Open slots of a started job get their nodes."""

    job: str
    placements: tuple[Placement, ...]


class Wait(NamedTuple):
    """The reason for which a job waits has changed. For a started job it is the reason of its open slots."""

    job: str
    reason: Reason


class Preempt(NamedTuple):
    """A started job is preempted as a whole: it is stopped and waits again, and keeps its age.

    Its amounts stay charged until the world reports that its pods are gone (`Refused`).
    `by`: the preemptor.
    `grace_s`: the grace period of the job's pods; None: each pod's own."""

    job: str
    attempt: int
    by: str
    reason: Reason
    grace_s: float | None = None


class Shrink(NamedTuple):
    """A started job releases slots above its minimum. Their amounts stay charged until they are `Released`."""

    job: str
    slots: tuple[Slot, ...]
    by: str
    reason: Reason
    grace_s: float | None = None


class Nominate(NamedTuple):
    """A queued job, or the open slots of a running job, are nominated to nodes that victims are leaving (like a pod's
    nominatedNodeName, for a gang).

    The nodes are charged at once, so no other job is placed on them. A nomination without placements withdraws the last
    one."""

    job: str
    placements: tuple[Placement, ...]
    flavors: tuple[str, ...] = ()
    until_s: float = 0.0  # the nomination is withdrawn at this time if the victims have not left


class RequestNodes(NamedTuple):
    """Nodes are requested from the provider of a node group. All times are in seconds since the epoch.

    `job`: the job that needs the nodes; empty: the group has fewer nodes than its minimum.
    `nodes`: names for the nodes. A provider that names nodes itself reports nodes of the group under other names.
    `until_s`: the time after which nodes that have not arrived have failed."""

    job: str
    group: str
    nodes: tuple[str, ...]
    requested_s: float
    expected_s: float
    until_s: float


class ReleaseNodes(NamedTuple):
    """The provider removes these nodes of a group, which are empty, or cancels them, if they have not arrived.

    `job`: always empty, because the nodes belong to no job.
    `late`: True if the nodes did not arrive in time; no more are requested from the group for a while."""

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


class RequestClassReport(NamedTuple):
    """The kind of message to a request class (`Blocker.CAPACITY` and the like), and its reason; `reason`
    None: the reason of its placement class."""

    blocker: int
    reason: Reason | None = None


class Findings(NamedTuple):
    """The findings of a cycle about pending requests. They are folded with the plan, so that the next cycle is faster.
    If they are not folded, only time and some reasons are lost.

    `version`: the version of the state that was decided on; findings older than the latest event are ignored.
    `received`: requests that are now in a request class. `waiting_for_event`: requests that wait for an event about
        themselves.
    `waiting_until`: requests that wait until a time.
    `reports`: the report to each request class.
    `explained`: the reason of each placement class without capacity. `failed`: placement classes whose trial failed
    although counting found capacity.
    `first`: the request with the first reservation, and since when it has it (seconds since the epoch).
    `searched`: failed searches for victims. `has_postponed`: some searches have yet to be made.

    `exceeding`: queues whose usage is above their limit and may be evicted, and since when (seconds since the
    epoch)."""

    version: int
    received: tuple[Request, ...] = ()
    waiting_for_event: tuple[Request, ...] = ()
    waiting_until: tuple[tuple[Request, float], ...] = ()
    reports: tuple[tuple[RequestClassKey, RequestClassReport], ...] = ()
    explained: tuple[tuple[PlacementClassKey, Reason], ...] = ()
    failed: tuple[int, ...] = ()
    first: tuple[Request, float] | None = None
    searched: tuple[tuple[RequestClassKey, Search], ...] = ()
    has_postponed: bool = False
    exceeding: tuple[tuple[str, float], ...] = ()


class Plan(NamedTuple):
    """The plan of one cycle. `wake_s`: the time (seconds since the epoch) of the next cycle even without an event;
    None: no cycle is needed before the next event."""

    actions: tuple[Action, ...] = ()
    wake_s: float | None = None
    findings: Findings | None = None
