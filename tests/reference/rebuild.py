"""Build a cluster state again from its facts alone, without the results of earlier searches and counts (R26)."""

from __future__ import annotations

from collections import deque
from random import Random

from phalanx.core.fold.fold import fold
from phalanx.model.event import Adopted, Event, NodeSeen, Opened, PolicySeen, QueueSeen, Submitted, Ticked
from phalanx.model.job import Phase, Placement, Slot
from phalanx.model.plan import Nominate, Preempt, Shrink
from phalanx.model.policy import Policy
from phalanx.model.reason import Reason, ReasonCode
from phalanx.state.cluster import Cluster, JobRecord

STOPPED = Reason(code=ReasonCode.PREEMPTED, text="stopped before")


def rebuilt(cluster: Cluster, policy: Policy, now_s: float, random: Random) -> Cluster:
    """Return a state with the same facts. The events about queues and jobs come in another order. The order in which
    nodes joined and slots opened is a fact, because it breaks ties."""
    anew = Cluster()
    nodes = [NodeSeen(node) for node in cluster.columns.nodes if node is not None]
    queues = [QueueSeen(queue) for queue in cluster.queues.values()]
    jobs = [stated(record) for record in cluster.jobs.values()]
    random.shuffle(queues)
    random.shuffle(jobs)
    fold(anew, [PolicySeen(policy), Ticked(now_s), *nodes, *queues, *jobs])
    for name, record in cluster.jobs.items():
        anew.jobs[name].size = record.size  # so that each slot of a job with a fixed size may open again
    open_slots = [(opened, name, slot) for name, record in cluster.jobs.items() for slot, opened in record.open.items()]
    for (anew.latest_s, _), name, slot in sorted(open_slots, key=lambda each: each[0][1]):
        fold(anew, [Opened(name, (slot,))])
    anew.latest_s = cluster.latest_s
    for name, record in cluster.jobs.items():
        if record.phase is Phase.STOPPING:
            fold(anew, [Preempt(name, record.attempt, "", STOPPED)])
        elif record.leaving:
            fold(anew, [Shrink(name, tuple(sorted(record.leaving)), "", STOPPED)])
    for name in cluster.nominated:
        record = cluster.jobs[name]
        fold(anew, [Nominate(name, placements(record.nominated), record.flavors, record.nominated_until_s)])
    for name, record in cluster.jobs.items():
        remember(anew.jobs[name], record)
    anew.preempted_at = {queue: deque(times) for queue, times in cluster.preempted_at.items()}
    anew.leaving = dict(cluster.leaving)
    return anew


def stated(record: JobRecord) -> Event:
    """Return the event that states a job: queued, or started with the pods that it has."""
    if record.phase is Phase.QUEUED:
        return Submitted(record.job)
    phase = Phase.RUNNING if record.phase is Phase.STOPPING else record.phase
    held = placements(record.placements)
    return Adopted(record.job, record.attempt, phase, held, (), record.started_s, record.flavors)


def placements(nodes: dict[Slot, str]) -> tuple[Placement, ...]:
    return tuple(Placement(slot.role, slot.ordinal, node) for slot, node in sorted(nodes.items()))


def remember(anew: JobRecord, record: JobRecord) -> None:
    """Copy the facts of a job that no event states."""
    anew.attempt, anew.preempted, anew.size = record.attempt, record.preempted, record.size
    anew.not_before_s, anew.short_since_s = record.not_before_s, record.short_since_s
    anew.refusal, anew.reason = record.refusal, record.reason
