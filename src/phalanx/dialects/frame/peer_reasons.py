"""Translate the codes of Phalanx's reasons (why a job waits) to the codes that other schedulers (*peers*) would use.

Tools that read a Workload, a PodGroup or the output of squeue then find a code that they know. Only the code is in the
peer's form. The message next to the code is always Phalanx's own. `IgnoredReason` marks a reason for which a peer has
no code.


Sources: Kueue's reasons of the condition QuotaReserved=False (apis/kueue/v1beta2/workload_types.go); Volcano's of the
PodGroup condition Unschedulable (scheduling/v1beta1/types.go); KAI's `UnschedulableReason` of a PodGroup's scheduling
conditions (scheduling/v2alpha2/podgroup_types.go); Slurm's JOB REASON CODES (squeue(1))."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, NamedTuple, TypeAlias

from phalanx.model.reason import ReasonCode


@dataclass(frozen=True, slots=True)
class IgnoredReason:
    """The table entry of a reason for which the peer has no code. `why`: why the peer has no such code."""

    why: str


Word: TypeAlias = str | IgnoredReason


class Words(NamedTuple):
    """The codes of one reason, one for each peer. KAI has codes only for reasons about quotas; its other reasons are
    sentences."""

    kueue: Word
    volcano: Word
    kai: Word
    slurm: Word


class Peer(StrEnum):
    """The peers; the values are the fields of `Words`."""

    KUEUE = "kueue"
    VOLCANO = "volcano"
    KAI = "kai"
    SLURM = "slurm"


SENTENCE = IgnoredReason("KAI has a sentence for this, no reason code")
NO_TIME = IgnoredReason("none of these schedulers has times or dependencies of jobs")
NOT_ENOUGH = "NotEnoughResources"
NEVER_TOLD = IgnoredReason("the object is refused, so it never waits")

PEERS: dict[ReasonCode, Words] = {
    ReasonCode.NO_ROOM: Words("WaitingForQuota", NOT_ENOUGH, SENTENCE, "Resources"),
    ReasonCode.NEVER_FITS: Words("ExceedsMaxQuota", NOT_ENOUGH, SENTENCE, "BadConstraints"),
    ReasonCode.ROOM_KEPT: Words("WaitingForQuota", NOT_ENOUGH, SENTENCE, "Resources"),
    ReasonCode.NO_NODE_MATCHES: Words("NoMatchingFlavor", NOT_ENOUGH, SENTENCE, "BadConstraints"),
    ReasonCode.WAITING_FOR_MEMBERS: Words(
        "PendingEvaluation", NOT_ENOUGH, SENTENCE, IgnoredReason("a job is submitted as a whole")
    ),
    ReasonCode.QUOTA: Words("PendingEvaluation", NOT_ENOUGH, SENTENCE, IgnoredReason("Slurm has no namespaces")),
    ReasonCode.HELD: Words("Suspended", IgnoredReason("Volcano's jobs cannot be held"), SENTENCE, "JobHeldUser"),
    ReasonCode.QUEUE_HELD: Words("Suspended", NOT_ENOUGH, SENTENCE, "PartitionDown"),
    ReasonCode.QUEUE_CLOSED: Words("Suspended", NOT_ENOUGH, SENTENCE, "PartitionInactive"),
    ReasonCode.QUEUE_MISCONFIGURED: Words("Misconfigured", NOT_ENOUGH, SENTENCE, "PartitionConfig"),
    ReasonCode.QUEUE_LIMIT: Words("WaitingForQuota", NOT_ENOUGH, "OverLimit", "AssocGrpCpuLimit"),
    ReasonCode.QUEUE_QUOTA: Words("WaitingForQuota", NOT_ENOUGH, "NonPreemptibleOverQuota", "AssocGrpCpuLimit"),
    ReasonCode.NEVER_WITHIN_LIMIT: Words("ExceedsMaxQuota", NOT_ENOUGH, "OverLimit", "AssocMaxCpuPerJobLimit"),
    ReasonCode.USER_LIMIT: Words("WaitingForQuota", NOT_ENOUGH, SENTENCE, "QOSMaxJobsPerUserLimit"),
    ReasonCode.BEHIND_HEAD: Words("PendingEvaluation", NOT_ENOUGH, SENTENCE, "Priority"),
    ReasonCode.RESERVED: Words("WaitingForQuota", NOT_ENOUGH, SENTENCE, "Priority"),
    ReasonCode.BEGIN_TIME: Words(NO_TIME, NO_TIME, NO_TIME, "BeginTime"),
    ReasonCode.DEADLINE: Words(NO_TIME, NO_TIME, NO_TIME, "DeadLine"),
    ReasonCode.DEPENDENCY: Words(NO_TIME, NO_TIME, NO_TIME, "Dependency"),
    ReasonCode.DEPENDENCY_NEVER: Words(NO_TIME, NO_TIME, NO_TIME, "DependencyNeverSatisfied"),
    ReasonCode.ARRAY_LIMIT: Words(NO_TIME, NO_TIME, NO_TIME, "JobArrayTaskLimit"),
    ReasonCode.PREEMPTING: Words("WaitingForPreemptedWorkloads", NOT_ENOUGH, SENTENCE, "Resources"),
    ReasonCode.PREEMPTED: Words("PendingEvaluation", NOT_ENOUGH, SENTENCE, "Resources"),
    ReasonCode.WAITING_FOR_NODES: Words("WaitingForQuota", NOT_ENOUGH, SENTENCE, "Resources"),
    ReasonCode.NO_DOMAIN: Words("TopologyPlacementFailed", NOT_ENOUGH, SENTENCE, "Resources"),
    ReasonCode.PLACEMENT_RULES: Words("NoMatchingFlavor", NOT_ENOUGH, SENTENCE, "Constraints"),
    ReasonCode.QUEUE_UNKNOWN: Words("Misconfigured", NOT_ENOUGH, "QueueDoesNotExist", "InvalidAccount"),
    ReasonCode.BACKOFF: Words("WaitingForPodsReady", NOT_ENOUGH, SENTENCE, "BeginTime"),
    ReasonCode.INVALID: Words("Misconfigured", NEVER_TOLD, NEVER_TOLD, "BadConstraints"),
    ReasonCode.VOLUMES: Words("Misconfigured", NOT_ENOUGH, SENTENCE, IgnoredReason("Slurm has no volumes")),
    ReasonCode.REJECTED: Words("WaitingForPodsReady", NOT_ENOUGH, SENTENCE, "JobLaunchFailure"),
    ReasonCode.STALE: Words("WaitingForPodsReady", NOT_ENOUGH, SENTENCE, "JobLaunchFailure"),
    ReasonCode.UNSUPPORTED: Words("Misconfigured", NOT_ENOUGH, SENTENCE, "BadConstraints"),
}


# Slurm's codes for limits: the object that has the limit (see `limited`) -> the limited resource -> code.
SLURM_LIMITS: dict[str, dict[str, str]] = {
    "queue": {
        "cpu": "AssocGrpCpuLimit",
        "memory": "AssocGrpMemLimit",
        "pods": "AssocGrpNodeLimit",
        "running": "AssocGrpJobsLimit",
        "submitted": "AssocGrpSubmitJobsLimit",
        "": "AssocGrpGRES",
    },
    "user": {
        "cpu": "QOSMaxCpuPerUserLimit",
        "memory": "QOSMaxMemoryPerUser",
        "pods": "QOSMaxNodePerUserLimit",
        "running": "QOSMaxJobsPerUserLimit",
        "submitted": "QOSMaxSubmitJobPerUserLimit",
        "": "QOSMaxGRESPerUser",
    },
    "group": {
        "cpu": "MaxCpuPerAccount",
        "memory": "MaxMemoryPerAccount",
        "pods": "MaxNodePerAccount",
        "running": "MaxJobsPerAccount",
        "submitted": "MaxSubmitJobsPerAccount",
        "": "MaxGRESPerAccount",
    },
    "job": {
        "cpu": "AssocMaxCpuPerJobLimit",
        "memory": "AssocMaxMemPerJob",
        "pods": "AssocMaxNodePerJobLimit",
        "": "AssocMaxGRESPerJob",
    },
}
LIMITS = {ReasonCode.QUEUE_LIMIT, ReasonCode.QUEUE_QUOTA, ReasonCode.USER_LIMIT, ReasonCode.NEVER_WITHIN_LIMIT}


def word(code: ReasonCode, peer: Peer, numbers: Mapping[str, object] | None = None) -> Word:
    """Return the peer's code for a reason. `numbers`: the numbers of the reason. They are needed because some peers
    have different codes for different limits."""
    if peer is Peer.KAI and code is ReasonCode.NEVER_WITHIN_LIMIT and numbers and numbers.get("rule") == "guarantee":
        return word(ReasonCode.QUEUE_QUOTA, peer)  # the quota blocks the job, because the job may not borrow
    if peer is Peer.SLURM and numbers:
        if code in LIMITS:
            return limited(numbers)
        if code is ReasonCode.NEVER_FITS and "hold" in numbers:  # the job has more pods than fit on empty nodes
            return "PartitionNodeLimit"
    found: Word = getattr(PEERS[code], peer)
    return found


def limited(numbers: Mapping[str, Any]) -> str:
    """Return Slurm's code for a limit. `numbers`: the numbers of a reason, which also contain the names of the limit
    and of the limited resource."""
    if "allowed_s" in numbers:
        return "PartitionTimeLimit"
    rule = str(numbers.get("rule", ""))
    whose = next((name for name in ("user", "group", "job") if name in rule.split("-")), "queue")
    counted = next((name for name in ("running", "submitted") if name in rule.split("-")), numbers.get("resource", ""))
    words = SLURM_LIMITS[whose]
    return words.get(counted, words[""])


def words(code: ReasonCode, numbers: Mapping[str, object] | None = None) -> dict[str, str | None]:
    """Return the code of each peer for a reason; None for a peer that has no code."""
    said = {str(peer): word(code, peer, numbers) for peer in Peer}
    return {peer: each if isinstance(each, str) else None for peer, each in said.items()}
