"""Reasons about preemption and nominations: why a victim was preempted, and why a nominated job has not started yet."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from phalanx.core.preemption.policy import KUEUE, PreemptionPolicy, PreemptionRule
from phalanx.model.job import pods_by_role
from phalanx.model.reason import LazyReason, Reason, ReasonCode, format_time
from phalanx.state.cluster import Cluster, JobRecord

NAMED = 3  # a reason names at most this many jobs


class PreemptedDetails(NamedTuple):
    """The facts from which the text of a victim's reason is made. `queue`, `priority`: the queue and the priority of
    the victim. `pods`: the number of pods that the victim loses. `whole`: True if the whole job is preempted. `by`: the
    preemptor.

    One search may preempt thousands of jobs, so the text is only made when a user reads the reason."""

    rule: PreemptionRule
    by: str
    by_queue: str
    by_priority: int
    queue: str
    priority: int
    pods: int
    whole: bool

    def text(self) -> str:
        what = "gives way to" if self.whole else f"gives up {pods_text(self.pods)} above its minimum for"
        return f"{what} {self.by} (priority {self.by_priority}, queue {self.by_queue}): {self.because()}"

    def because(self) -> str:
        match self.rule:
            case PreemptionRule.WITHIN if self.priority == self.by_priority:
                return "it was submitted later"
            case PreemptionRule.WITHIN:
                return f"it has priority {self.priority}"
            case PreemptionRule.RECLAIM:
                return f"{self.by_queue} stays within its guarantee, {self.queue} has more than its own"
            case PreemptionRule.FAIR_SHARE:
                return f"the share of {self.by_queue} stays below that of {self.queue}"
            case PreemptionRule.BORROWING:
                return f"{self.queue} borrows, and it has priority {self.priority}"
            case PreemptionRule.CONSOLIDATION:
                return "it is moved to other nodes, so that both fit"

    def numbers(self) -> Mapping[str, Any]:
        return {
            "rule": str(self.rule),
            "kueue": KUEUE.get(self.rule, ""),
            "by": self.by,
            "by_queue": self.by_queue,
            "by_priority": self.by_priority,
            "queue": self.queue,
            "priority": self.priority,
            "pods": self.pods,
        }

    def names(self, job: str) -> bool:
        """Return False. The reason of a victim names no jobs that hold a resource."""
        return False


def preempted_reason(rights: PreemptionPolicy, victim: JobRecord, rule: PreemptionRule, slots: int) -> Reason:
    """Return the reason of a victim. `slots`: the number of pods above its minimum that the victim loses; 0 if the
    whole job is preempted."""
    by, queue = rights.job, victim.queue
    held = slots or len(victim.placements)
    facts = PreemptedDetails(rule, by.id, rights.queue, by.priority, queue, victim.job.priority, held, not slots)
    return LazyReason(ReasonCode.PREEMPTED, facts)


def nominated_reason(cluster: Cluster, record: JobRecord, leaving: Sequence[str], now_s: float) -> Reason:
    """Return why a nominated job has not started yet: nodes that were requested for it have not joined the cluster, or
    pods of its victims have not terminated."""
    return waiting_for_nodes(cluster, record, now_s) or preemptor_reason(record, leaving)


def waiting_for_nodes(cluster: Cluster, record: JobRecord, now_s: float) -> Reason | None:
    """Return the reason of a nominated job if some of its nodes were requested from node groups and have not joined the
    cluster yet; otherwise return None."""
    names = sorted({name for name in record.nominated.values() if name in cluster.columns.groups.coming})
    if not names:
        return None
    if (found := on_demand(cluster, record, names[0], now_s)) is not None:
        return found
    requests = Counter(cluster.columns.groups.coming[name]._replace(is_seen=False) for name in names)
    each = [
        f"{nodes_text(count)} of {request.group}, requested at {format_time(request.requested_s, now_s)}, "
        f"expected at {format_time(request.expected_s, now_s)}"
        for request, count in sorted(requests.items())
    ]
    groups: Counter[str] = Counter()
    for request, count in requests.items():
        groups[request.group] += count
    return Reason(
        code=ReasonCode.WAITING_FOR_NODES,
        text=f"waits for {'; and for '.join(each)}",
        numbers={
            "groups": dict(sorted(groups.items())),
            "nodes": names,
            "requested_s": min(request.requested_s for request in requests),
            "expected_s": max(request.expected_s for request in requests),
            "until_s": record.nominated_until_s,
        },
    )


def on_demand(cluster: Cluster, record: JobRecord, placeholder: str, now_s: float) -> Reason | None:
    """Return the reason of a job that waits for nodes of a node group on demand; None if the node group is not on
    demand. `placeholder`: one of the requested nodes."""
    groups = cluster.columns.groups
    coming, note = groups.coming[placeholder], groups.notes.get(record.job.id, "")
    if (group := groups.known.get(coming.group)) is None or group.on_demand is None:
        return None
    text = f"waits for nodes for {pods_text(len(record.nominated))} from {coming.group}, requested at "
    text += format_time(coming.requested_s, now_s) + (f": {note}" if note else "")
    return Reason(
        code=ReasonCode.WAITING_FOR_NODES,
        text=text,
        numbers={
            "group": coming.group,
            "flavors": list(record.flavors),
            "pods": pods_by_role(record.nominated, len(record.gang.roles)),
            "requested_s": coming.requested_s,
            "note": note,
        },
    )


def preemptor_reason(record: JobRecord, leaving: Sequence[str]) -> Reason:
    """Return the reason of a nominated job whose victims have not left its nodes. `leaving`: the jobs with terminating
    pods on the nominated nodes."""
    nodes = sorted(set(record.nominated.values()))
    where = nodes[0] if len(nodes) == 1 else f"{len(nodes)} nodes"
    return Reason(
        code=ReasonCode.PREEMPTING,
        text=f"promised room on {where} for {pods_text(len(record.nominated))}; {jobs_text(leaving)} still there",
        numbers={
            "waits_for": list(leaving),
            "nodes": nodes,
            "pods": len(record.nominated),
            "until_s": record.nominated_until_s,
        },
    )


def jobs_text(jobs: Sequence[str]) -> str:
    """Return a text that lists the jobs and ends with a verb, such as `a, b and c are` or `a, b, c and 4 more are`."""
    if not jobs:
        return "others are"
    if len(jobs) == 1:
        return f"{jobs[0]} is"
    if len(jobs) <= NAMED:
        return f"{', '.join(jobs[:-1])} and {jobs[-1]} are"
    return f"{', '.join(jobs[:NAMED])} and {len(jobs) - NAMED} more are"


def pods_text(count: int) -> str:
    """Return the number of pods as a part of a sentence."""
    return "1 pod" if count == 1 else f"{count} pods"


def nodes_text(count: int) -> str:
    """Return the number of nodes as a part of a sentence."""
    return "1 node" if count == 1 else f"{count} nodes"
