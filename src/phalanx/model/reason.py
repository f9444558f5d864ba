"""Why a job waits, as a value with numbers.

A reason is made where the decision is made and rendered late: `code` is for machines and stable, `text` is one
sentence for people, `numbers` is what the sentence was made from. The command line, the pod condition, the event and
the simulator show the same one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any


class Code(StrEnum):
    """Stable codes; kubectl users and alerts match on them. New ones are added, old ones never renamed."""

    NO_ROOM = "NoRoom"  # would fit an emptier cluster
    NEVER_FITS = "NeverFits"  # larger than what any node, or all nodes together, could ever hold
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
    UNSUPPORTED = "Unsupported"  # asks for something that fit does not understand: it fails closed


# Nothing that runs stands in the way: only the job, the settings or the nodes can mend it. Such a head holds up nobody.
NEVER = {Code.NEVER_FITS, Code.NO_NODE_MATCHES, Code.NEVER_WITHIN_LIMIT, Code.INVALID, Code.UNSUPPORTED}
# What others' going can mend.
SHORT = {Code.NO_ROOM, Code.NO_DOMAIN, Code.PLACEMENT_RULES, Code.QUEUE_QUOTA, Code.QUEUE_LIMIT}


@dataclass(frozen=True, slots=True, kw_only=True)
class Reason:
    """`more_nodes_help`: a cluster autoscaler could mend it (a pod then says Unschedulable, else PhalanxQueued)."""

    code: Code
    text: str
    numbers: Mapping[str, Any] = field(default_factory=dict, hash=False)
    more_nodes_help: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Forecast:
    """When a waiting job is expected to start (seconds since the epoch) if all that runs takes as long as it may, and
    what it waits for. Not part of the reason: it changes with every end, and reasons are written to objects."""

    start_s: float
    after: str = ""
