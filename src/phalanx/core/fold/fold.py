"""Fold events and actions, that is, apply them to the cluster state. No other code changes the state.

The table `TAKEN_IN_BY` maps each type of event or action to the function that applies it. Every event states a fact
about the *world* (the cluster, or a simulation of it). Folding the same event twice has no further effect. An event
about an earlier state of a job arrives too late and is ignored (`core.fold.transitions`). An action takes effect when
it is folded: nodes and queues are charged before the cluster carries the action out. So the next decision cannot grant
the same capacity again."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from math import inf, nextafter
from operator import itemgetter
from typing import Any, Final, TypeAlias

from phalanx.core.fold import charging, cluster_events, job_dependencies, transitions
from phalanx.core.fold.charging import (
    charge_placements,
    clear_charge,
    mark_leaving,
    nominate,
    release,
    settle_charge,
    withdraw_nomination,
)
from phalanx.core.fold.memory import Decision
from phalanx.core.fold.transitions import LATE, IllegalTransition
from phalanx.model.event import (
    Adopted,
    Event,
    Finished,
    FlavorGone,
    FlavorSeen,
    NodeGone,
    NodeSeen,
    Occupied,
    Opened,
    OutcomeTold,
    PolicySeen,
    QueueGone,
    QueueSeen,
    Refused,
    Released,
    ReservationGone,
    ReservationSeen,
    RunTold,
    Started,
    Submitted,
    Ticked,
    TopologiesSeen,
    UsageTold,
    Vacated,
)
from phalanx.model.job import GangSize, Job, Outcome, Phase, Placement, Slot
from phalanx.model.plan import (
    Action,
    JobAction,
    Nominate,
    Place,
    Plan,
    Preempt,
    Shrink,
    Start,
    Wait,
)
from phalanx.model.queue import HOUR_S
from phalanx.model.reason import NEVER, SHORT
from phalanx.state.classes import Gang
from phalanx.state.cluster import Cluster, JobRecord, grows_partly, is_overcommitted, nominated_in, time_limit_s
from phalanx.state.pending.pending import Deadline
from phalanx.state.pending.request_class import Request
from phalanx.state.running import LEAVING_S

News: TypeAlias = Event | Action

REMEMBERED = 1 << 16  # at most this many past preemptions are stored for each queue
ROLE = itemgetter(0)  # `ROLE(slot)` or `ROLE(placement)` returns the role, which is the first field


def fold(cluster: Cluster, news: Iterable[News]) -> None:
    """Apply events or actions to the state, in order.

    Raises `IllegalTransition` for an event or action that is impossible in the present state. The items before the
    failing item have been applied, and the failing item has changed nothing."""
    cluster.pending.version += 1
    for item in news:
        TAKEN_IN_BY[type(item)](cluster, item)
    if cluster.tree.stale or cluster.tree.pool_stale:
        cluster_events.tree_changed(cluster)


def fold_plan(cluster: Cluster, made: Decision | Plan) -> None:
    """Apply the actions of a decision or plan (`made`) to the state. A decision also has a memory: new values for
    caches in the state. The memory is applied only if no event was applied after the decision was made."""
    plan, memory = made if isinstance(made, Decision) else (made, None)
    if memory is not None and memory.version != cluster.pending.version:
        memory = None  # an event was applied after the decision
    if memory is not None:
        memory.begin(cluster)
    for action in plan.actions:
        TAKEN_IN_BY[type(action)](cluster, action)
    if cluster.tree.pool_stale:
        cluster_events.tree_changed(cluster)
    if memory is not None:
        memory.fold(cluster)


# Events about jobs


def outcome_told(cluster: Cluster, event: OutcomeTold) -> None:
    if event.job not in cluster.jobs:
        cluster.dependencies.ended(event.job, event.outcome)
        refresh_dependents(cluster, event.job)


def submitted(cluster: Cluster, event: Submitted) -> None:
    job = cluster_events.with_learned_estimate(cluster, event.job)
    record = cluster.jobs.get(job.id)
    if record is None:
        add_job(cluster, job)
        cluster.pending.fresh[Request(job.id)] = None
        refresh_dependents(cluster, job.id)
    elif record.job != job and record.phase is Phase.QUEUED:
        withdraw_nomination(cluster, record)
        clear_charge(cluster, record)
        describe(cluster, record, job, cluster.interned.of(job))
        cluster.pending.refresh(Request(job.id))
        refresh_related(cluster, job)


def answering(cluster: Cluster, event: Opened | Released | Started | Refused | Finished) -> JobRecord | None:
    """Return the record of the job that an event reports about; None if the event reports on an earlier state of the
    job."""
    record = cluster.jobs.get(event.job)
    if record is None or transitions.transition(event.job, record.phase, record.attempt, event) == LATE:
        return None
    return record


def opened(cluster: Cluster, event: Opened) -> None:
    if (record := answering(cluster, event)) is None:
        return
    if record.phase is Phase.STOPPING:
        release(cluster, record, event.slots)  # the job is being stopped and needs no replacement
    else:
        add_open_slots(cluster, record, event.slots)


def released(cluster: Cluster, event: Released) -> None:
    if record := answering(cluster, event):
        release(cluster, record, event.slots)
        settle_charge(cluster, record)
        refresh_open(cluster, record)  # an open slot that was above the minimum may now be below it


def started(cluster: Cluster, event: Started) -> None:
    if record := answering(cluster, event):
        record.phase = Phase.RUNNING
        if not record.open:
            record.reason = None


def finished(cluster: Cluster, event: Finished) -> None:
    if record := answering(cluster, event):
        if record.phase is Phase.RUNNING:
            limit_s = time_limit_s(cluster, record.job)
            cluster.ends.run_times.learn(record.job, limit_s, cluster.told_s - record.started_s)
        remove_job(cluster, record, event.outcome)


def adopted(cluster: Cluster, event: Adopted) -> None:
    if event.phase is Phase.QUEUED:
        raise IllegalTransition(f"job {event.job.id!r} is adopted as queued; a job that waits is Submitted")
    record = cluster.jobs.get(event.job.id) or add_job(cluster, event.job)
    news = record.phase is Phase.QUEUED
    cluster.pending.leave(Request(event.job.id))
    release(cluster, record, (*record.placements, *record.open))
    withdraw_nomination(cluster, record)
    if record.job != event.job:
        describe(cluster, record, event.job, cluster.interned.of(event.job))
    record.phase, record.attempt = event.phase, event.attempt
    record.reason, record.refusal, record.not_before_s = None, None, 0.0
    record.started_s, record.flavors = event.started_s, event.flavors
    check_roles(record, event.placements)
    charge_placements(cluster, record, event.placements)
    record.size = fixed_size(record, (*record.placements, *event.open))
    if news:
        charging.backdate(cluster, record)
    add_open_slots(cluster, record, event.open)
    mark_leaving(cluster, record, record.placements if event.phase is Phase.STOPPING else event.leaving, None)
    settle_charge(cluster, record)
    job_started(cluster, record, leaving=event.phase is Phase.STOPPING)


def refused(cluster: Cluster, event: Refused) -> None:
    if (record := answering(cluster, event)) is None:
        return
    release(cluster, record, (*record.placements, *record.open))
    record.phase, record.refusal, record.not_before_s = Phase.QUEUED, event.reason, event.not_before_s
    record.reason, record.size = event.reason, ()
    settle_charge(cluster, record)
    cluster.pending.refresh(Request(event.job))
    cluster.ends.drop(event.job)
    watch_deadline(cluster, record.job)
    # a nominated job is going to start, so it still counts against its array's limit on running tasks
    if not record.nominated:
        cluster.dependencies.rest(record.job)
    refresh_related(cluster, record.job)


def remove_job(cluster: Cluster, record: JobRecord, outcome: Outcome) -> None:
    job = record.job
    if record.placements or record.open:
        release(cluster, record, (*record.placements, *record.open))
    if record.nominated:
        withdraw_nomination(cluster, record)
    clear_charge(cluster, record)
    if record.phase is Phase.QUEUED:
        cluster.pending.leave(Request(job.id))
    leave_queue(cluster, job)
    del cluster.jobs[job.id]
    cluster.columns.groups.notes.pop(job.id, None)
    cluster.columns.groups.granted.discard(job.id)
    cluster.ends.drop(job.id)
    if job.deadline_s is not None:
        cluster.pending.timers.drop(Deadline(job.id))
    cluster.dependencies.leave(job)
    cluster.dependencies.ended(job.id, outcome)
    refresh_related(cluster, job)


def job_started(cluster: Cluster, record: JobRecord, *, leaving: bool = False) -> None:
    """Record that the job has started: set its expected end, and make the next cycle check the jobs that depend on its
    start. `leaving`: True if the job is already being stopped."""
    job = record.job
    if leaving:
        cluster.ends.set(job.id, LEAVING_S)
    elif (limit_s := time_limit_s(cluster, job)) is not None:
        cluster.ends.set(job.id, record.started_s + limit_s if limit_s > 0 else record.started_s)
    else:
        cluster.ends.drop(job.id)  # the job has no time limit, so an expected end that was stored before is outdated
    if job.deadline_s is not None:
        cluster.pending.timers.drop(Deadline(job.id))
    cluster.dependencies.work(job)
    refresh_dependents(cluster, job.id)


def refresh_related(cluster: Cluster, job: Job) -> None:
    """Make the next cycle check the other jobs that may be waiting for a change of `job`."""
    if not (cluster.dependencies.dependents or job.singleton or job.array_cap is not None):
        return
    for name in job_dependencies.affected_jobs(cluster, job):
        cluster.pending.refresh(Request(name))


def refresh_dependents(cluster: Cluster, job: str) -> None:
    for name in cluster.dependencies.dependents.get(job, ()):
        if job_dependencies.queued(cluster, name):
            cluster.pending.refresh(Request(name))


def watch_deadline(cluster: Cluster, job: Job) -> None:
    """Set a timer just after the latest time at which the job can start and still meet its deadline. When the timer
    expires, the job is checked again and reports a missed deadline."""
    if job.deadline_s is not None:
        cluster.pending.timers.set(Deadline(job.id), nextafter(job_dependencies.latest_start_s(job), inf))


def add_open_slots(cluster: Cluster, record: JobRecord, slots: Sequence[Slot]) -> None:
    """Open the slots `slots` of the job: new pods can be placed in open slots. If a slot still has a node, release the
    node. A slot that was already open keeps its arrival time. If the job's size was fixed at its start, slots beyond
    the fixed size are not opened."""
    check_roles(record, slots)
    record.make_ready()
    for slot in slots:
        if slot in record.open or (record.size and slot.ordinal >= record.size[slot.role]):
            continue
        release(cluster, record, (slot,))
        cluster.opened += 1
        record.open[slot] = (cluster.latest_s, cluster.opened)
        cluster.pending.refresh(Request(record.job.id, slot))
    settle_charge(cluster, record)
    refresh_group(cluster, record)


def refresh_group(cluster: Cluster, record: JobRecord) -> None:
    """Make the next cycle check the job's open slots again, because the nodes of its running pods have changed. An open
    slot may now need another topology domain, or must be placed together with other slots, or belongs to the
    minimum."""
    if record.gang.tree is not None or grows_partly(record):
        refresh_open(cluster, record)


def refresh_open(cluster: Cluster, record: JobRecord) -> None:
    for slot in record.open:
        cluster.pending.refresh(Request(record.job.id, slot))


def start(cluster: Cluster, action: Start) -> None:
    record = decided_record(cluster, action)
    check_roles(record, action.placements)
    if record.nominated:
        withdraw_nomination(cluster, record)
    record.phase, record.attempt, record.started_s = Phase.STARTING, action.attempt, action.at_s
    record.reason, record.refusal, record.not_before_s, record.flavors = None, None, 0.0, action.flavors
    record.short_since_s = None
    cluster.pending.leave(Request(action.job))
    charge_checked(cluster, record, action.placements)
    if record.job.size is GangSize.FIXED_AT_START:
        record.size = fixed_size(record, record.placements)
    settle_charge(cluster, record)
    charging.enter_start(cluster, record)
    job_started(cluster, record)
    note_partial(cluster, record, action)


def place(cluster: Cluster, action: Place) -> None:
    record = decided_record(cluster, action)
    for role, ordinal, _, _ in action.placements:
        if (role, ordinal) not in record.open:
            raise IllegalTransition(f"job {action.job!r} has no open slot {role}/{ordinal} to place")
    if record.nominated:
        slots = [Slot(role, ordinal) for role, ordinal, _, _ in action.placements]
        withdraw_nomination(cluster, record, [slot for slot in slots if slot in record.nominated])
    charge_checked(cluster, record, action.placements)
    settle_charge(cluster, record)
    refresh_group(cluster, record)
    if not record.open:
        record.reason = None


def preempt(cluster: Cluster, action: Preempt) -> None:
    """Preempt the job. The job holds its nodes until an event reports that its pods are gone, and gets no more pods."""
    record = decided_record(cluster, action)
    release(cluster, record, tuple(record.open))
    withdraw_nomination(cluster, record)
    record.phase, record.reason = Phase.STOPPING, action.reason
    record.preempted += 1
    mark_leaving(cluster, record, record.placements, action.grace_s)
    recent = cluster.preempted_at.setdefault(record.queue, deque(maxlen=REMEMBERED))
    while recent and recent[0] <= cluster.now_s - HOUR_S:
        recent.popleft()  # only preemptions of the last hour count for a preemption budget
    recent.append(cluster.now_s)
    clear_charge(cluster, record)
    cluster.ends.set(action.job, LEAVING_S)


def shrink(cluster: Cluster, action: Shrink) -> None:
    record = decided_record(cluster, action)
    if strangers := [slot for slot in action.slots if slot not in record.placements]:
        raise IllegalTransition(f"job {action.job!r} holds nothing in {strangers[0]} to give up")
    mark_leaving(cluster, record, action.slots, action.grace_s)
    settle_charge(cluster, record)


def nominate_job(cluster: Cluster, action: Nominate) -> None:
    record = decided_record(cluster, action)
    check_roles(record, action.placements)
    before = list(record.nominated)
    withdraw_nomination(cluster, record)
    record.flavors, record.nominated_until_s = action.flavors, action.until_s
    nominate(cluster, record, action.placements)
    settle_charge(cluster, record)
    if record.nominated:
        cluster.dependencies.work(record.job)
    if record.phase is Phase.QUEUED:
        cluster.pending.refresh(Request(action.job))
    # slots of a started job whose nomination is new or withdrawn
    for slot in record.open.keys() & {*before, *record.nominated}:
        cluster.pending.refresh(Request(action.job, slot))
    if grows_partly(record):
        refresh_open(cluster, record)


def wait(cluster: Cluster, action: Wait) -> None:
    record = decided_record(cluster, action)
    record.reason = action.reason
    if action.reason.code in SHORT and record.short_since_s is None:
        record.short_since_s = cluster.now_s
    if record.job.array_cap is None or record.phase is not Phase.QUEUED:
        return
    if action.reason.code in NEVER:
        cluster.dependencies.rest(record.job)
        cluster.dependencies.passed[action.job] = None
    elif Request(action.job) in cluster.pending.hopeless:
        # The job may be able to start now, but the limit of its array on running tasks must be checked first.
        cluster.pending.refresh(Request(action.job))


def decided_record(cluster: Cluster, action: JobAction) -> JobRecord:
    """Return the record of the action's job. Raises `IllegalTransition` if the job does not exist, or if its present
    state does not allow the action."""
    record = cluster.jobs.get(action.job)
    if record is None:
        raise IllegalTransition(f"{type(action).__name__} of job {action.job!r}, which is not in the book")
    transitions.transition(action.job, record.phase, record.attempt, action)
    return record


def charge_checked(cluster: Cluster, record: JobRecord, placements: Sequence[Placement]) -> None:
    for placement in charge_placements(cluster, record, placements):
        row = cluster.columns.row_of[placement.node]
        if not is_overcommitted(cluster, row, nominated_in(cluster, row, cluster.nominated)):
            # the node is overcommitted only because nominations count; nominated jobs wait until enough pods have left
            continue
        cluster.breaches.append(f"we placed a pod of {record.job.id} on {placement.node}, which had no room for it")


def note_partial(cluster: Cluster, record: JobRecord, action: Start) -> None:
    """Record a breach of the scheduling rules if a gang starts with fewer pods than its minimum. A start without any
    placement is also a breach, except in a queue that starts jobs pod by pod."""
    if record.gang.enough(record.placed):
        return
    queue = cluster.queues.get(record.queue)
    if action.placements or (queue is not None and queue.gang):
        each = zip(record.placed, record.job.roles, strict=True)
        short = [f"{placed} of {role.minimum} pods of {role.name}" for placed, role in each if placed < role.minimum]
        cluster.breaches.append(f"{record.job.id} was started with {', '.join(short)}")


def fixed_size(record: JobRecord, slots: Iterable[Slot]) -> tuple[int, ...]:
    """Return the number of pods of each role of a job whose size is fixed at the start. `slots`: the slots with which
    the job starts. Return an empty tuple if the size is not fixed. Also return it if `slots` is empty, because such a
    job is started pod by pod."""
    if record.job.size is not GangSize.FIXED_AT_START:
        return ()
    size = [0] * len(record.job.roles)
    for slot in slots:
        size[slot.role] = max(size[slot.role], slot.ordinal + 1)
    return tuple(size) if any(size) else ()


def add_job(cluster: Cluster, job: Job) -> JobRecord:
    gang = cluster.interned.of(job)
    record = cluster.jobs[job.id] = JobRecord(job, gang, cluster.queue_of(job))
    describe(cluster, record, job, gang)
    return record


def describe(cluster: Cluster, record: JobRecord, job: Job, gang: Gang) -> None:
    """Store the job and its gang in the record. Equal roles are stored only once for all jobs."""
    if record.job is not job:
        leave_queue(cluster, record.job)
        cluster.dependencies.leave(record.job)
    if job.preempted > record.preempted:
        record.preempted = job.preempted
    record.gang = gang
    record.placed = gang.none
    record.job, record.queue = job if job.roles is gang.roles else replace(job, roles=gang.roles), cluster.queue_of(job)
    cluster.jobs_of.setdefault(job.queue, {})[job.id] = None
    branch = cluster.tree.branches[record.queue]
    if branch.rules.limits.submissions:
        admit(cluster, cluster.tree.submitted.enter(branch, job))
    if job.submitted_s > cluster.latest_s:
        cluster.latest_s = job.submitted_s
    cluster.dependencies.enter(job)
    if job.singleton and (displaced := job_dependencies.displaced_by(cluster, job)):
        cluster.pending.refresh(Request(displaced))
    cluster.usage.enter(job.queue, job.association)
    watch_deadline(cluster, job)


def leave_queue(cluster: Cluster, job: Job) -> None:
    cluster.usage.leave(job.queue, job.association, cluster.now_s)
    jobs = cluster.jobs_of.get(job.queue, {})
    jobs.pop(job.id, None)
    branch = cluster.tree.branches[cluster.queue_of(job)]
    if branch.rules.limits.submissions:
        admit(cluster, cluster.tree.submitted.leave(branch, job))
    if not jobs:
        cluster.jobs_of.pop(job.queue, None)


def admit(cluster: Cluster, jobs: Iterable[str]) -> None:
    """Make the next cycle check the queued jobs among `jobs`, because a limit on submitted jobs now admits or excludes
    them."""
    for job in jobs:
        if job in cluster.jobs and cluster.jobs[job].phase is Phase.QUEUED:
            cluster.pending.refresh(Request(job))


def check_roles(record: JobRecord, slots: Iterable[Slot | Placement]) -> None:
    roles = len(record.job.roles)
    for role in {*map(ROLE, slots)}:
        if not 0 <= role < roles:
            raise IllegalTransition(f"job {record.job.id!r} has {roles} roles; there is no slot of role {role}")


TAKEN_IN_BY: Final[dict[type[News], Callable[[Cluster, Any], None]]] = {
    NodeSeen: cluster_events.node_seen,
    NodeGone: cluster_events.node_gone,
    **cluster_events.OF_NODE_GROUPS,
    QueueSeen: cluster_events.queue_seen,
    QueueGone: cluster_events.queue_gone,
    FlavorSeen: cluster_events.flavors_changed,
    FlavorGone: cluster_events.flavors_changed,
    ReservationSeen: cluster_events.reservations_changed,
    TopologiesSeen: cluster_events.topologies_seen,
    ReservationGone: cluster_events.reservations_changed,
    Ticked: cluster_events.tick,
    PolicySeen: cluster_events.policy_seen,
    UsageTold: cluster_events.usage_told,
    OutcomeTold: outcome_told,
    RunTold: cluster_events.run_told,
    Submitted: submitted,
    Adopted: adopted,
    Opened: opened,
    Released: released,
    Started: started,
    Refused: refused,
    Finished: finished,
    Occupied: cluster_events.occupied,
    Vacated: cluster_events.vacated,
    Start: start,
    Place: place,
    Wait: wait,
    Preempt: preempt,
    Shrink: shrink,
    Nominate: nominate_job,
}
