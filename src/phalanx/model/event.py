"""Events: facts that a world reports. `core.fold.fold` applies them to the cluster state; no other input changes it.

Each event is idempotent: a repeated event changes nothing. `attempt` counts the starts of a job. If the number in an
event is too low, the event is about an earlier start, and is ignored.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from phalanx.model.job import Job, Outcome, Phase, Placement, Slot
from phalanx.model.node import Flavor, Node, NodeGroup, Reservation, Topology
from phalanx.model.pod import Amounts, HostPort, PodAffinityTerm
from phalanx.model.policy import Policy
from phalanx.model.queue import Queue
from phalanx.model.reason import Reason


@dataclass(frozen=True, slots=True)
class NodeSeen:
    """A node is new or has changed."""

    node: Node


@dataclass(frozen=True, slots=True)
class NodeGone:
    """A node object was deleted. The node stays charged for its pods until each of them is gone."""

    name: str


@dataclass(frozen=True, slots=True)
class NodeGroupSeen:
    """A node group is new or has changed."""

    group: NodeGroup


@dataclass(frozen=True, slots=True)
class NodeGroupGone:
    """A node group was deleted. Its nodes stay in the cluster. Requested nodes that have not arrived are no longer
    expected."""

    name: str


@dataclass(frozen=True, slots=True)
class NodesComing:
    """Nodes of a group were requested before the scheduler started, and have not arrived yet. The times are seconds
    since the epoch, and have the same meaning as in `plan.RequestNodes`."""

    group: str
    nodes: tuple[str, ...]
    requested_s: float
    expected_s: float
    until_s: float


@dataclass(frozen=True, slots=True)
class NodesFailed:
    """The provider of the group cannot add these requested nodes. `text`: the provider's reason."""

    group: str
    nodes: tuple[str, ...]
    text: str = ""


@dataclass(frozen=True, slots=True)
class NodesKept:
    """The provider of the group does not remove these nodes although they were released, for instance because a pod
    runs on them."""

    group: str
    nodes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class NodesNoted:
    """A message about the nodes for which a job waits. `text`: a phrase that becomes a part of the job's reason; empty
    if nothing is known. `granted`: whether it is certain that the nodes will arrive."""

    job: str
    text: str
    granted: bool = False


@dataclass(frozen=True, slots=True)
class QueueSeen:
    """A queue is new or has changed."""

    queue: Queue


@dataclass(frozen=True, slots=True)
class QueueGone:
    """A queue was deleted."""

    name: str


@dataclass(frozen=True, slots=True)
class FlavorSeen:
    """A flavor is new or has changed."""

    flavor: Flavor


@dataclass(frozen=True, slots=True)
class FlavorGone:
    """A flavor was deleted."""

    name: str


@dataclass(frozen=True, slots=True)
class TopologiesSeen:
    """The topologies that objects of the cluster declare have changed. `topologies` lists all of them. The scheduler
    uses them in addition to the topologies of the policy."""

    topologies: tuple[Topology, ...]


@dataclass(frozen=True, slots=True)
class ReservationSeen:
    """An advance reservation is new or has changed."""

    reservation: Reservation


@dataclass(frozen=True, slots=True)
class ReservationGone:
    """An advance reservation was deleted."""

    name: str


@dataclass(frozen=True, slots=True)
class Ticked:
    """The present time is `now_s` (seconds since the epoch). In each cycle, the loop sends this event before the events
    of the world."""

    now_s: float


@dataclass(frozen=True, slots=True)
class PolicySeen:
    """The policy has changed. The loop sends this event with the new policy."""

    policy: Policy


@dataclass(frozen=True, slots=True)
class UsageTold:
    """The past usage of a user in a queue, which was stored before a restart, in billed units times seconds. It
    includes the decay up to `at_s`.

    The event replaces earlier values. It is sent before running jobs are adopted (`Adopted`). When these jobs are
    adopted, their usage since `at_s` is added."""

    queue: str
    user: str
    usage: float
    at_s: float


@dataclass(frozen=True, slots=True)
class OutcomeTold:
    """The outcome of a job that is no longer live. After a restart, this event is sent for each ended job on which
    other jobs depend."""

    job: str
    outcome: Outcome


@dataclass(frozen=True, slots=True)
class RunTold:
    """The run time (`run_s` seconds) of a job that has ended. After a restart, one event is sent for each ended job
    that the world still knows, in the order in which they ended. The core learns run times from these events."""

    job: Job
    run_s: float


@dataclass(frozen=True, slots=True)
class Submitted:
    """A pending job is new or has changed. If the job has already started, the event has no effect."""

    job: Job


@dataclass(frozen=True, slots=True)
class Adopted:
    """The full state of a started job. It replaces the state that the scheduler knows. The event is sent after a
    restart, or if the real pods differ from the plan.

    `placements`: the slots that have a node. The nodes are charged for them even if this overcommits a node.
    `open`: slots that need a node.
    `started_s`, `flavors`: the time of the job's start, and the flavors that it got then.
    `leaving`: placed slots whose pods are stopping and are not gone yet; all placed slots if the whole job stops."""

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
    """Slots of a started job need a node. Possible reasons: a job that is scheduled pod by pod got a new pod, a pod
    lost its node, a kubelet rejected a pod, or the job grew. If these slots still held nodes, the nodes are
    released."""

    job: str
    slots: tuple[Slot, ...]


@dataclass(frozen=True, slots=True)
class Released:
    """A started job no longer uses these slots: their pods finished, or the job shrank. The amounts that they held are
    free."""

    job: str
    slots: tuple[Slot, ...]


@dataclass(frozen=True, slots=True)
class Started:
    """Every pod of the job's minimum is bound."""

    job: str
    attempt: int


@dataclass(frozen=True, slots=True)
class Refused:
    """A start has failed and was undone, or a running job was stopped. In both cases all pods of the job are gone. The
    job waits again and does not start before `not_before_s` (seconds since the epoch)."""

    job: str
    attempt: int
    reason: Reason
    not_before_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Finished:
    """A job ended or was deleted. All amounts that it held are free."""

    job: str
    outcome: Outcome = Outcome.SUCCEEDED


@dataclass(frozen=True, slots=True)
class Occupied:
    """A foreign pod holds amounts on a node. A pod is foreign if another scheduler has bound or nominated it, if it is
    static, or if it belongs to a DaemonSet.

    `requests`: the exact amounts that the pod holds, including 1 of the resource `pods`. `devices`: the names of its
    devices.
    `resident`: whether the pod is static or belongs to a DaemonSet. A node that has only resident pods counts as empty.
    The other fields have the same meaning as in `Shape`, because affinity terms of other pods may select the foreign
    pod, and its own terms may select other pods."""

    pod: str  # its uid
    node: str
    requests: Amounts
    labels: tuple[tuple[str, str], ...] = ()
    namespace: str = ""
    ports: tuple[HostPort, ...] = ()
    near: tuple[PodAffinityTerm, ...] = ()
    away: tuple[PodAffinityTerm, ...] = ()
    devices: tuple[str, ...] = ()  # names of devices that the pod holds whole
    resident: bool = False


@dataclass(frozen=True, slots=True)
class Vacated:
    """A foreign pod is gone; the amounts that it held are free."""

    pod: str


Event: TypeAlias = (
    NodeSeen
    | NodeGone
    | NodeGroupSeen
    | NodeGroupGone
    | NodesComing
    | NodesFailed
    | NodesKept
    | NodesNoted
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
