"""Record the amounts that jobs hold: charge nodes and queues, and update the list of the largest consumers and the past
usage of users.

- A node is charged for a pod from the decision that places the pod until the pod is gone.
- A queue is charged as soon as a decision is made, before it is carried out in the cluster. For a started gang, its
  queue is charged for the present pods, and for each lost pod without which the gang is below its minimum. A nomination
  is charged to the queue of the nominated job. A job that is being stopped is no longer charged to its queue, although
  its pods still hold their nodes.
- Past usage: a user is charged for a pod from the decision that places it until an event reports that the pod is gone.
  During this time, no other job can use its capacity. A nomination is not charged to the user. This module records each
  change of a job's holdings; `state.usage` computes the usage from these records.
- After a restart, events report first the stored usage (`UsageTold`), and then the running jobs (`Adopted`). The usage
  of an adopted job counts from its start, without the part that the stored usage already includes."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from functools import partial
from itertools import groupby
from operator import itemgetter

from phalanx.model.job import Phase, Placement, Slot, pods_by_role
from phalanx.model.pod import Amount
from phalanx.state.cluster import Cluster, JobRecord
from phalanx.state.pending.request_class import Request
from phalanx.state.queues.branch import ROOT
from phalanx.state.queues.quota import Charge, gang_cost
from phalanx.state.queues.submitted import SubmittedJobs

# `SLOT(fields)` creates the same Slot as `Slot._make(fields)`, but faster
SLOT = partial(tuple.__new__, Slot)
# Functions that return parts of a placement. `NAMED`: its slot. `NODE`: its node. `LOT`: its role, node and devices,
# which are equal for all pods of a lot (`charge_nodes`).
NAMED, NODE, LOT = itemgetter(0, 1), itemgetter(2), itemgetter(0, 2, 3)


def charge_placements(cluster: Cluster, record: JobRecord, placements: Sequence[Placement]) -> list[Placement]:
    """Record that the pods of the job are on these nodes, and charge the nodes. If two placements have the same slot,
    only the last placement counts. Return the last placement of each lot that overcommits its node, as `charge_nodes`
    does."""
    record.make_ready()
    cluster.ends.derived.pop(record.job.id, None)
    there = dict(zip(map(SLOT, map(NAMED, placements)), placements, strict=True))
    if record.open or record.placements:
        release(cluster, record, [slot for slot in there if slot in record.open or slot in record.placements])
    record.placements.update(zip(there, map(NODE, there.values()), strict=True))
    unfit = charge_nodes(cluster, record, there.values())
    update_usage(cluster, record, pods_by_role(there, len(record.job.roles)))
    return unfit


def charge_nodes(cluster: Cluster, record: JobRecord, placements: Iterable[Placement]) -> list[Placement]:
    """Charge the pods to their nodes. Consecutive placements with the same role, node and devices form a *lot*, and are
    charged together. Return the last placement of each lot whose charge overcommits the node."""
    columns, unfit = cluster.columns, []
    for (role, node, devices), lot in groupby(placements, LOT):
        demand, pods = record.gang.demands[role], list(lot)
        if demand.tracked or devices:
            for each in pods:
                row = columns.hold(node, demand, devices)
                if devices:
                    record.devices[SLOT(NAMED(each))] = devices
        else:
            row = columns.charge(node, demand.asks, len(pods))
        if columns.least_free(row) < 0:
            unfit.append(pods[-1])
    return unfit


def release(cluster: Cluster, record: JobRecord, slots: Iterable[Slot]) -> None:
    """Release these slots of the job: they no longer hold a node, and are no longer open."""
    freed = [0] * len(record.job.roles)
    cluster.ends.derived.pop(record.job.id, None)
    for slot in slots:
        node = record.placements.pop(slot, None)
        if node is not None:
            if slot in record.leaving:
                record.leaving.remove(slot)
                if not record.leaving:
                    cluster.leaving.pop(record.job.id, None)
            cluster.release_slot(record, slot, node)
            freed[slot.role] -= 1
        elif record.open.pop(slot, None):
            cluster.pending.leave(Request(record.job.id, slot))
            if slot in record.nominated:
                withdraw_nomination(cluster, record, (slot,))
    update_usage(cluster, record, freed)


def nominate(cluster: Cluster, record: JobRecord, placements: Sequence[Placement]) -> None:
    """Nominate the job, and charge the nominated placements to their nodes at once. The nodes may be overcommitted
    until victims have left. Until then, no other job is placed on them."""
    if placements:
        cluster.nominated[record.job.id] = None
    record.make_ready()
    for role, ordinal, node, _ in placements:
        record.nominated[Slot(role, ordinal)] = node
    charge_nodes(cluster, record, placements)
    cluster.pending.allow_new_searches()


def withdraw_nomination(cluster: Cluster, record: JobRecord, slots: Collection[Slot] | None = None) -> None:
    """Withdraw the nominations of these slots of the job. `slots`: the slots; None for all slots of the job."""
    for slot in list(record.nominated if slots is None else slots):
        cluster.release_slot(record, slot, record.nominated.pop(slot))
        cluster.pending.allow_new_searches()
    if not record.nominated:
        cluster.nominated.pop(record.job.id, None)


def update_usage(cluster: Cluster, record: JobRecord, change: list[int]) -> None:
    """Update the numbers of placed pods. `change[role]`: the number of pods of the role that were placed; negative if
    pods were released."""
    note_holdings_changed(cluster, record)
    job, placed = record.job, list(record.placed)
    for role, pods in enumerate(change):
        if pods:
            costs = record.gang.demands[role].costs
            placed[role] += pods
            cluster.consumers.change(job.id, costs, pods)
            cluster.usage.hold(job.queue, job.association, costs, pods, cluster.now_s)
    record.placed = placed


def mark_leaving(cluster: Cluster, record: JobRecord, slots: Iterable[Slot], grace_s: float | None) -> None:
    """Record that these slots are being evicted. `grace_s`: the grace period of the pods, in seconds; None if it is not
    known."""
    record.make_ready()
    record.leaving.update(slots)
    if record.leaving:
        cluster.leaving[record.job.id] = cluster.now_s + (grace_s or 0.0)
    cluster.ends.foreseen = None
    note_holdings_changed(cluster, record)


def note_holdings_changed(cluster: Cluster, record: JobRecord) -> None:
    """Record that the nodes or the amounts that the job holds have changed. Searches for victims that failed before may
    now succeed, so allow new searches."""
    if cluster.running_pods is not None:
        cluster.running_pods.touch(record.job.id)
        cluster.pending.allow_new_searches()


def settle_charge(cluster: Cluster, record: JobRecord) -> None:
    """Compute the job's charge again. If it has changed, update the job's queue and all queues above it."""
    due = queue_charge(cluster, record)
    if due != record.charge:
        if record.charge is not None:
            cluster.tree.charge(record.charge, -1)
        if due is not None:
            cluster.tree.charge(due, 1)
        record.charge = due


def clear_charge(cluster: Cluster, record: JobRecord) -> None:
    """Remove the job's charge from its queue. `settle_charge` may charge the queue again."""
    if record.charge is not None:
        cluster.tree.charge(record.charge, -1)
        record.charge = None


def rebuild_tree(cluster: Cluster) -> None:
    """Bring the queue tree up to date after a change of queues, flavors or nodes: build the tree and its charges again,
    and compute its pool (the capacity of the cluster) again."""
    tree = cluster.tree
    if tree.stale:
        tree.build(cluster.queues, cluster.flavors)
        for record in cluster.jobs.values():
            record.charge = queue_charge(cluster, record)
            if record.charge is not None:
                tree.charge(record.charge, 1)
        cluster.tree.submitted = submitted_jobs(cluster)
        cluster.pending.arrange(tree)
    if tree.pool_stale:
        tree.pool = cluster.pool()
        for branch in tree.branches.values():
            branch.account.shares.clear()
        tree.pool_stale = False
        tree.eased = True
        cluster.pending.headroom.renew([ROOT])  # the bounds that depend on the pool


def submitted_jobs(cluster: Cluster) -> SubmittedJobs:
    """Return the jobs that count against limits on submitted jobs; no jobs if no queue has such a limit."""
    found = SubmittedJobs()
    gated = any(branch.rules.limits.submissions for branch in cluster.tree.branches.values())
    for record in cluster.jobs.values() if gated else ():
        for _ in found.enter(cluster.tree.branch(record.queue), record.job):
            pass
    return found


def queue_charge(cluster: Cluster, record: JobRecord) -> Charge | None:
    """Return the charge of the job to its queue. Return None for a queued or stopping job without a nomination: such a
    job is not charged, and does not count as a running job."""
    if record.phase is not Phase.QUEUED and record.phase is not Phase.STOPPING:
        pods = charged_pods(cluster, record)
        if record.nominated:
            pods = [has + more for has, more in zip(pods, pods_by_role(record.nominated, len(pods)), strict=True)]
    elif record.nominated:
        pods = pods_by_role(record.nominated, len(record.gang.roles))
    else:
        return None
    job = record.job
    cost = gang_cost(record.gang, pods, record.flavors, cluster.tree.branch(cluster.queue_of(job)).rules.flavors)
    return Charge(cluster.queue_of(job), job.user, job.group, cost, 1, job.id, job.preemptible)


def charged_pods(cluster: Cluster, record: JobRecord) -> list[int]:
    """Return the number of pods of each role that a started job is charged for. These are the pods that have a node and
    are not being evicted. For a gang, open slots (pods that still need a node) are charged as well, up to the minimum.

    If the gang can do without pods of a role, these pods count as growth (`state.cluster.is_growth`). They are charged
    only when they are placed."""
    pods = list(record.kept())
    if not record.open:
        return pods
    queue = cluster.queues.get(record.queue)
    if queue is not None and not queue.gang:
        return pods
    wanted = pods_by_role(record.open, len(pods))
    return [
        has if record.gang.does_without(at, pods) else max(has, min(least, has + more))
        for at, (has, more, least) in enumerate(zip(pods, wanted, record.minimums, strict=True))
    ]


def backdate(cluster: Cluster, record: JobRecord) -> None:
    """Add the usage of an adopted job (event `Adopted`) to the past usage, from the start of the job until now. If the
    start is unknown, only usage from now on counts."""
    if record.started_s > 0:
        job, held = record.job, used_resources(record)
        cluster.usage.backdate(job.queue, job.association, held, record.started_s, cluster.now_s)


def enter_start(cluster: Cluster, record: JobRecord) -> None:
    """If the job's queue is ordered by usage, charge the start of the job to the past usage of its account, as if the
    job had run for a fixed time (`UsageTerms.entry_s`)."""
    job, entry_s = record.job, cluster.entry_s(record.job)
    if entry_s:
        cluster.usage.enter_start(job.queue, job.association, used_resources(record), entry_s, cluster.now_s)


def used_resources(record: JobRecord) -> dict[str, Amount]:
    """Return a mapping: resource -> the amount that the job's pods hold, in the units in which past usage is
    recorded."""
    held: dict[str, Amount] = {}
    for slot in record.placements:
        for resource, amount in record.gang.demands[slot.role].costs:
            held[resource] = held.get(resource, 0) + amount
    return held
