"""Turn a preemption plan into actions: evict the victims, and nominate the preemptor to their nodes. If these nodes are
free already, the preemptor starts at once. The functions also update the draft and the ledger of the cycle."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from phalanx.core.placement import replacement
from phalanx.core.placement.draft import Draft
from phalanx.core.preemption import nomination
from phalanx.core.preemption.candidates import Victim
from phalanx.core.preemption.context import PreemptionContext
from phalanx.core.preemption.policy import PreemptionPolicy, queue_preemption
from phalanx.core.preemption.search import PreemptionPlan
from phalanx.core.reasons import preempted
from phalanx.model.job import Phase, Placement, Slot, pods_by_role
from phalanx.model.plan import Action, Nominate, Place, Preempt, Shrink, Start
from phalanx.model.reason import Reason
from phalanx.state.classes import Gang
from phalanx.state.cluster import Cluster, JobRecord, nominated_placements, time_limit_s
from phalanx.state.pending.request_class import Request
from phalanx.state.queues.quota import gang_cost


def settle(
    context: PreemptionContext, actions: list[Action], request: Request, found: PreemptionPlan, rights: PreemptionPolicy
) -> bool:
    """Add the actions of the plan. Release the charges of the victims to their queues, and charge the preemptor to its
    queue and its nodes. Return True if the preemptor overcommits no node; it may then start in the next cycle. In this
    case its nodes have enough free capacity even before the victims leave. The eviction may still be necessary: a
    victim may use a port or a device that the preemptor needs, or a reservation may need the capacity. It is also
    possible that the search for free nodes reached its budget and overlooked these nodes."""
    cluster, now_s = context.cluster, context.now_s
    record = cluster.jobs[request.job]
    for victim in found.victims:
        tell(context, actions, victim, rights)
    for victim in found.victims:
        if victim.place:
            keep_nomination(context.draft, cluster, cluster.jobs[victim.job].gang, victim.place)
    context.ledger.charge(found.offer.charge)
    until_s = (
        now_s + nomination.PATIENCE_S + max((grace_s(cluster, each.job) or 0.0 for each in found.victims), default=0.0)
    )
    if request.slot is not None:
        placements = replacement.placements_of_slots(cluster, record, request.slot, found.placements)
        at_once = Place(request.job, tuple(placements)) if found.at_once else None
        actions.append(at_once or grown(context, actions, record, placements, until_s))
    elif found.at_once:
        limit_s, flavors = time_limit_s(cluster, record.job), found.offer.flavors
        actions.append(Start(request.job, record.attempt + 1, found.placements, now_s, flavors, limit_s))
    else:
        actions.append(Nominate(request.job, found.placements, found.offer.flavors, until_s))
    return not keep_nomination(context.draft, cluster, found.offer.gang, found.placements)


def grown(
    context: PreemptionContext,
    actions: list[Action],
    record: JobRecord,
    placements: Sequence[Placement],
    until_s: float,
) -> Nominate:
    """Return the nomination of a growing job. It has the job's new placements, and also its earlier nominated
    placements, except those of slots for which this cycle has placed pods."""
    placed = {(each.role, each.ordinal) for each in context.placed.get(record.job.id, ())}
    known = tuple(each for each in nominated_placements(record) if (each.role, each.ordinal) not in placed)
    for action in [each for each in actions if isinstance(each, Nominate) and each.job == record.job.id]:
        actions.remove(action)
        known = action.placements
    return Nominate(record.job.id, (*known, *placements), record.flavors, until_s)


def tell(context: PreemptionContext, actions: list[Action], victim: Victim, rights: PreemptionPolicy) -> None:
    """Evict some or all pods of the victim. If the plan moves the victim to other nodes, nominate it to them; otherwise
    release its charge to its queue."""
    record = context.cluster.jobs[victim.job]
    reason = preempted.preempted_reason(rights, record, victim.rule, len(victim.slots))
    evict(context, actions, record, victim.slots, rights.job.id, reason)
    if victim.place:
        until_s = context.now_s + nomination.PATIENCE_S + (grace_s(context.cluster, victim.job) or 0.0)
        actions.append(Nominate(victim.job, victim.place, record.flavors, until_s))
    elif victim.charge is not None:
        context.ledger.charge(victim.charge, -1)


def evict(
    context: PreemptionContext,
    actions: list[Action],
    record: JobRecord,
    slots: tuple[Slot, ...],
    by: str,
    reason: Reason,
) -> None:
    """Add the action that evicts slots of the job. `slots`: the slots to evict; empty to evict the whole job. `by`: the
    id of the preemptor; empty if there is no preemptor."""
    cluster, job = context.cluster, record.job.id
    spared_s, queue = grace_s(cluster, job), record.queue
    if slots:
        actions.append(Shrink(job, slots, by, reason, spared_s))
    else:
        take_back(context, actions, record)
        actions.append(Preempt(job, record.attempt, by, reason, spared_s))
        context.spent[queue] = context.spent.get(queue, 0) + 1
    told = context.victims.get(job, ())
    context.victims[job] = (*told, *slots) if slots else ()
    for slot in slots or sorted(record.placements.keys() - record.leaving - {*told}):
        demand = record.gang.demands[slot.role]
        context.leaving.append((record.placements[slot], demand, record.devices.get(slot, ())))


def give_back(context: PreemptionContext, record: JobRecord) -> None:
    """Return the nominated capacity of the job to the free capacity of the draft, and release its charge to its
    queue."""
    nomination.vacate(context.cluster, context.draft, record, nominated_placements(record))
    if record.charge is not None:
        pods = pods_by_role(record.nominated, len(record.job.roles))
        cost = gang_cost(record.gang, pods, record.flavors)
        context.ledger.charge(record.charge._replace(cost=cost, jobs=int(record.phase is Phase.QUEUED)), -1)


def take_back(context: PreemptionContext, actions: list[Action], record: JobRecord) -> None:
    """Cancel what this cycle has granted to a job that is now preempted: pods above its minimum, and nominations (rule
    R24)."""
    job = record.job.id
    grown = [action for action in actions if isinstance(action, Nominate) and action.job == job] if record.open else []
    actions[:] = [action for action in actions if action not in grown]
    nominated = grown[0].placements if grown else nominated_placements(record)
    placed = nomination.each_slot_once(context.placed.pop(job, ()), nominated)
    nomination.vacate(context.cluster, context.draft, record, placed)


def grace_s(cluster: Cluster, job: str) -> float | None:
    """Return the grace period of a victim's pods, in seconds; None if each pod has its own grace period."""
    return queue_preemption(cluster, cluster.jobs[job].queue).grace_s


def keep_nomination(draft: Draft, cluster: Cluster, gang: Gang, placements: Sequence[Placement]) -> bool:
    """Subtract the nominated capacity from the free capacity of the draft. Place no more pods in this cycle on nodes
    that become overcommitted. Return whether at least one node is overcommitted."""
    rows = cluster.columns.row_of
    at = {rows[placement.node] for placement in placements}
    position_of = {
        int(draft.rows[position]): position for position in np.isin(draft.rows, list(at)).nonzero()[0].tolist()
    }
    for placement in placements:
        # The draft leaves out nodes that were overcommitted before, so they have no position in it.
        if (position := position_of.get(rows[placement.node])) is not None:
            draft.occupy(position, gang.demands[placement.role], placement.devices)
    overfull = [each for each in position_of.values() if any(view[each] < 0 for view in draft.views.values())]
    for position in overfull:
        draft.shut(position)
    draft.settle()
    return bool(overfull) or len(position_of) < len(at)
