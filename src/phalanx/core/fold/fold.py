"""Fold events and actions, that is, apply them to the cluster state. No other code changes the state.

The table `TAKEN_IN_BY` maps each type of event or action to the function that applies it. Every event states a fact
about the *world* (the cluster, or a simulation of it). Folding the same event twice has no further effect. If an event
reports an earlier state of a job than the stored state, it is ignored (`core.fold.transitions`). An action changes the
state when it is folded, even before the cluster carries the action out. So the nodes and queues are already charged,
and the next decision cannot grant the same capacity again."""

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

REMEMBERED = 1 << 16  # the largest number of past preemptions that are stored for a queue
ROLE = itemgetter(0)  # `ROLE(slot)` or `ROLE(placement)` returns the role, which is the first field


def fold(cluster: Cluster, news: Iterable[News]) -> None:
    """Apply events or actions to the state, in order.

    Raises `IllegalTransition` if an item of `news` is impossible in the present state of its job. All items before this
    item are then applied, and the item itself changes nothing."""
    cluster.pending.version += 1
    for item in news:
        TAKEN_IN_BY[type(item)](cluster, item)
    if cluster.tree.stale or cluster.tree.pool_stale:
        cluster_events.tree_changed(cluster)


def fold_plan(cluster: Cluster, made: Decision | Plan) -> None:
    """Apply the actions of a decision or a plan to the state. `made`: the decision or the plan. A decision also has a
    memory, that is, new values for caches in the state. If an event was applied to the state after the decision was
    made, the memory is outdated and is ignored."""
    plan, memory = made if isinstance(made, Decision) else (made, None)
    if memory is not None and memory.version != cluster.pending.version:
        memory = None  # an event was applied after the decision was made
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
    """Return the record of the event's job. Return None if the job does not exist, or if the event reports an earlier
    state of the job than the stored state."""
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
        refresh_open(cluster, record)  # open slots above the minimum may now be part of the minimum


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
    # a nominated job will start soon, so it still counts against the cap of its array
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
    start. `leaving`: whether the job is already being stopped."""
    job = record.job
    if leaving:
        cluster.ends.set(job.id, LEAVING_S)
    elif (limit_s := time_limit_s(cluster, job)) is not None:
        cluster.ends.set(job.id, record.started_s + limit_s if limit_s > 0 else record.started_s)
    else:
        cluster.ends.drop(job.id)  # without a time limit, no end is expected
    if job.deadline_s is not None:
        cluster.pending.timers.drop(Deadline(job.id))
    cluster.dependencies.work(job)
    refresh_dependents(cluster, job.id)


def refresh_related(cluster: Cluster, job: Job) -> None:
    """Make the next cycle check the other jobs that a change of `job` may allow to start."""
    if not (cluster.dependencies.dependents or job.singleton or job.array_cap is not None):
        return
    for name in job_dependencies.affected_jobs(cluster, job):
        cluster.pending.refresh(Request(name))


def refresh_dependents(cluster: Cluster, job: str) -> None:
    for name in cluster.dependencies.dependents.get(job, ()):
        if job_dependencies.queued(cluster, name):
            cluster.pending.refresh(Request(name))


def watch_deadline(cluster: Cluster, job: Job) -> None:
    """If the job has a deadline, set a timer just after its latest possible start. When the timer expires, the next
    cycle checks the job again, and the job reports that it cannot meet its deadline."""
    if job.deadline_s is not None:
        cluster.pending.timers.set(Deadline(job.id), nextafter(job_dependencies.latest_start_s(job), inf))


def add_open_slots(cluster: Cluster, record: JobRecord, slots: Sequence[Slot]) -> None:
    """Open these slots of the job. An open slot needs a new pod and a node for it. If a slot still has a node, release
    the node. A slot that was already open keeps its arrival time. If the size of the job was fixed when it started,
    ignore slots beyond this size."""
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
    """Make the next cycle check the job's open slots again, because the nodes of its running pods have changed. For an
    open slot, the required topology domain may now be different. The slot may also have to be placed together with
    other slots, or may now be part of the minimum."""
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
    """Preempt the job. The job gets no more pods, and holds its nodes until an event reports that its pods are gone."""
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
    # open slots of a started job that are newly nominated, or that have lost their nomination
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
        # The job may be able to start now, but the cap of its array must be checked first.
        cluster.pending.refresh(Request(action.job))


def decided_record(cluster: Cluster, action: JobAction) -> JobRecord:
    """Return the record of the action's job. Raises `IllegalTransition` if the job does not exist, or if the action is
    illegal in the present phase of the job."""
    record = cluster.jobs.get(action.job)
    if record is None:
        raise IllegalTransition(f"{type(action).__name__} of job {action.job!r}, which is not in the book")
    transitions.transition(action.job, record.phase, record.attempt, action)
    return record


def charge_checked(cluster: Cluster, record: JobRecord, placements: Sequence[Placement]) -> None:
    for placement in charge_placements(cluster, record, placements):
        row = cluster.columns.row_of[placement.node]
        if not is_overcommitted(cluster, row, nominated_in(cluster, row, cluster.nominated)):
            # Without the nominations, the node is not overcommitted. This is no breach, because nominated jobs wait
            # until enough pods have left.
            continue
        cluster.breaches.append(f"we placed a pod of {record.job.id} on {placement.node}, which had no room for it")


def note_partial(cluster: Cluster, record: JobRecord, action: Start) -> None:
    """Record a breach of the scheduling rules if a gang starts with fewer pods than its minimum. In a queue that starts
    jobs pod by pod, a start without pods is no breach."""
    if record.gang.enough(record.placed):
        return
    queue = cluster.queues.get(record.queue)
    if action.placements or (queue is not None and queue.gang):
        each = zip(record.placed, record.job.roles, strict=True)
        short = [f"{placed} of {role.minimum} pods of {role.name}" for placed, role in each if placed < role.minimum]
        cluster.breaches.append(f"{record.job.id} was started with {', '.join(short)}")


def fixed_size(record: JobRecord, slots: Iterable[Slot]) -> tuple[int, ...]:
    """Return the size of a job whose size is fixed when it starts: the number of pods of each role. `slots`: the slots
    with which the job starts. Return an empty tuple if the size is not fixed. Also return an empty tuple if there are
    no slots, because the job then starts pod by pod."""
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
    """Store the job and its gang in the record. Jobs with equal roles share one object for these roles."""
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
    """Make the next cycle check these jobs again if they are queued, because a limit on submitted jobs now admits or
    excludes them."""
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
