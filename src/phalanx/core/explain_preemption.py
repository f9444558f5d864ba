"""What is said to those who give way, and to those they give way to."""

from __future__ import annotations

from collections.abc import Sequence

from phalanx.core.rights import KUEUE, Rights, Rule
from phalanx.model.cluster import Cluster, Record
from phalanx.model.job import Job
from phalanx.model.reason import Code, Reason

NAMED = 3  # jobs named in a sentence


def gave_way(rights: Rights, victim: Record, rule: Rule, slots: int) -> Reason:
    """Why a job is preempted whole (`slots` 0), or gives up so many pods above its minimum."""
    by, queue = rights.job, rights.cluster.queue_of(victim.job)
    what = f"gives up {pods(slots)} above its minimum for" if slots else "gives way to"
    why = because(rights, victim.job, rule, queue)
    return Reason(
        code=Code.PREEMPTED,
        text=f"{what} {by.id} (priority {by.priority}, queue {rights.queue}): {why}",
        numbers={
            "rule": str(rule),
            "kueue": KUEUE.get(rule, ""),
            "by": by.id,
            "by_queue": rights.queue,
            "by_priority": by.priority,
            "queue": queue,
            "priority": victim.job.priority,
            "pods": slots or len(victim.placements),
        },
    )


def because(rights: Rights, victim: Job, rule: Rule, queue: str) -> str:
    match rule:
        case Rule.WITHIN if victim.priority == rights.job.priority:
            return "it was submitted later"
        case Rule.WITHIN:
            return f"it has priority {victim.priority}"
        case Rule.RECLAIM:
            return f"{rights.queue} stays within its guarantee, {queue} has more than its own"
        case Rule.FAIR_SHARE:
            return f"the share of {rights.queue} stays below that of {queue}"
        case Rule.BORROWING:
            return f"{queue} borrows, and it has priority {victim.priority}"
        case Rule.CONSOLIDATION:
            return "it is moved to other nodes, so that both fit"


def preempting(cluster: Cluster, record: Record, leaving: Sequence[str]) -> Reason:
    """Why a job that is promised room has not started yet."""
    nodes = sorted(set(record.promise.values()))
    where = nodes[0] if len(nodes) == 1 else f"{len(nodes)} nodes"
    return Reason(
        code=Code.PREEMPTING,
        text=f"promised room on {where} for {pods(len(record.promise))}; {named(leaving)} still there",
        numbers={
            "waits_for": list(leaving),
            "nodes": nodes,
            "pods": len(record.promise),
            "until_s": record.promised_until_s,
        },
    )


def named(jobs: Sequence[str]) -> str:
    """`a, b and c are`; `a, b, c and 4 more are`."""
    if not jobs:
        return "others are"
    if len(jobs) == 1:
        return f"{jobs[0]} is"
    if len(jobs) <= NAMED:
        return f"{', '.join(jobs[:-1])} and {jobs[-1]} are"
    return f"{', '.join(jobs[:NAMED])} and {len(jobs) - NAMED} more are"


def pods(count: int) -> str:
    return "1 pod" if count == 1 else f"{count} pods"
