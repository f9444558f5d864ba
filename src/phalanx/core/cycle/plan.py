"""The end of a cycle: build the plan, and compute the time at which the next cycle is due if no event comes earlier.

The plan has the starts, the preemptions, and the reasons of waiting jobs. The memory (`core.fold.memory`) has results
about pending requests that the next cycle can use. If a decision of this cycle may let other requests start, the next
cycle is due at once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from math import inf, nextafter

from phalanx.core.backfill import advance
from phalanx.core.cycle.preempt.search import DELAYED
from phalanx.core.cycle.steps import Cycle
from phalanx.core.fold import job_dependencies
from phalanx.core.fold.memory import Decision, Memory
from phalanx.core.preemption.nomination import growing_jobs
from phalanx.core.quota import excess
from phalanx.model.job import DependencyType, Phase
from phalanx.model.plan import Action, Nominate, Place, Plan, Preempt, Start, Wait
from phalanx.model.reason import NEVER, Reason, ReasonCode
from phalanx.state.cluster import Cluster
from phalanx.state.nodes.pod_index import arrival_may_help
from phalanx.state.pending.pending import NEVER_S, Deadline
from phalanx.state.pending.request_class import Blocker, Request

# the value of `Search.changes` if running jobs have changed since the search failed, but no later cycle has searched
# again
UNTRIED = -2


def decision(cycle: Cycle) -> Decision:
    """Return the plan of the cycle, and the memory for the next one."""
    state, reporter, jobs = cycle.state, cycle.reporter, cycle.cluster.jobs
    state.waits = {job: reason for job, reason in state.waits.items() if jobs[job].reason != reason}
    waits, waiting_for_event = state.waits, state.waiting_for_event
    if state.actions:
        preempted = (action.job for action in state.actions if isinstance(action, Preempt))
        outdated_jobs = {*state.withdrawn, *preempted}  # the last reported reasons of these jobs are outdated
        waiting_for_event = {request: None for request in waiting_for_event if request.job not in outdated_jobs}
        waits = {job: reason for job, reason in waits.items() if job not in outdated_jobs}
    actions: list[Action] = [Place(job, tuple(placements)) for job, placements in state.places.items()]
    actions += state.starts
    actions += state.actions
    actions += map(Wait, waits.keys(), waits.values())
    # Failed searches that this cycle did not repeat, although running jobs have changed. This happens if the request
    # waits behind the head of a strict queue. The first cycle that tries the request will repeat the search.
    untried = [
        (key, search._replace(changes=UNTRIED))
        for key, search in state.pending.searched.items()
        if key not in state.searched and search.changes not in (DELAYED, UNTRIED, state.pending.changes)
    ]
    if state.places or state.actions:
        growing = growing_jobs(cycle.cluster, state.places, state.actions)
        state.has_postponed |= may_search_again(cycle, growing)
    memory = Memory(
        version=cycle.pending.version,
        received=tuple(state.received),
        waiting_for_event=tuple(waiting_for_event),
        waiting_until=tuple(state.waiting_until),
        reports=tuple([(request_class.key, report) for request_class, report in reporter.reports.items()]),
        explained=tuple(cycle.known.explained.items()),
        disproved=tuple(cycle.known.disproved),
        stale=tuple(reporter.stale.items()),
        renewed=reporter.renewed,
        failed=tuple([found.key for found in state.known.failed]),
        first=cycle.reserving.first(),
        searched=(*untried, *state.searched.items()),
        has_postponed=state.has_postponed,
        exceeding=tuple(state.exceeding.items()),
    )
    wake_s = min(wake_times_s(cycle, memory), default=None)
    state.draft.settle()
    cycle.cluster.columns.packing_order = state.draft.packing_order  # for the next cycle
    return Decision(Plan(tuple(actions), wake_s, memory.first), memory)


def withdrawals(cycle: Cycle) -> Decision:
    """Return the plan of a cycle that only withdraws nominations. The next cycle follows at once, and makes all other
    decisions."""
    found = Plan(tuple(cycle.state.actions), cycle.now_s, cycle.pending.reserved)
    return Decision(found)


def idle(cluster: Cluster, now_s: float) -> Decision:
    """Return the decision of a cycle with nothing to decide."""
    wake_s = min(next_change_times_s(cluster, now_s, (), ()), default=None)
    return Decision(Plan((), wake_s, cluster.pending.reserved))


def wake_times_s(cycle: Cycle, memory: Memory) -> Iterator[float]:
    """Yield the times at which a cycle is due even if no event comes, in seconds since the epoch."""
    cluster, now_s, state, placed = cycle.cluster, cycle.now_s, cycle.state, cycle.state.places
    yield from next_change_times_s(cluster, now_s, state.starts, state.granted)
    times_s = [again_s for _, again_s in memory.waiting_until]
    times_s += [search.again_s for _, search in memory.searched]
    times_s += [cluster.jobs[job].nominated_until_s for job in state.kept_nominations]
    yield from (again_s for again_s in times_s if now_s < again_s < NEVER_S)
    for action in state.actions:
        if isinstance(action, Nominate):
            # without placements, the action withdraws a nomination, and the job needs a new decision at once
            yield action.until_s if action.placements else now_s
    if state.has_postponed or (state.victims and waits_for_quota(cycle)):
        yield now_s  # pending jobs may start with quota that victims return
    if cluster.dependencies.arrays and any(frees_array_slot(cycle, *each) for each in state.waits.items()):
        yield now_s  # the next task of the array may start
    if (memory.failed or cycle.pending.placement_classes.failed) and may_satisfy_affinity(cycle):
        yield now_s  # requests with affinity to pods that this cycle has placed may start now
    for job, placements in placed.items():
        if cluster.jobs[job].gang.tree is not None and len(cluster.jobs[job].open) > len(placements):
            yield now_s  # other open slots must now be placed in the topology domains of these pods


def may_search_again(cycle: Cycle, growing: set[str]) -> bool:
    """Return True if a search for victims has failed, but may succeed in the next cycle. `growing`: the running jobs
    that get further pods in this cycle. A job in `growing` then has more pods than its minimum. So a search may choose
    some of its other pods as victims."""
    pending = cycle.pending
    failed = [key for key, each in {**pending.searched, **cycle.state.searched}.items() if each.changes >= 0]
    waiting = (entry.request.job for key in failed for entry in pending.request_classes.get(key, ()))
    return any(growing - {job} for job in waiting)


def frees_array_slot(cycle: Cycle, job: str, reason: Reason) -> bool:
    """Return True if the job cannot start, but counts against the cap of its array (the largest number of its tasks
    that may run at once). If so, the next task of the array may start instead."""
    record = cycle.cluster.jobs[job]
    if record.job.array_cap is None or reason.code is ReasonCode.ARRAY_LIMIT or record.phase is not Phase.QUEUED:
        return False
    if Request(job) in cycle.pending.request_class_of:
        return reason.code in NEVER
    return job_dependencies.waits_for_turn(record) or cycle.cluster.dependencies.contends(record.job)


def waits_for_quota(cycle: Cycle) -> bool:
    """Return whether at least one request waits for quota."""
    columns, reporter = cycle.pending.columns, cycle.reporter
    if reporter.eased or any(blocker == Blocker.QUOTA for blocker, _ in reporter.reports.values()):
        return True
    return bool(((columns.reported_blocker == Blocker.QUOTA) & (columns.placement_class >= 0)).any())


def may_satisfy_affinity(cycle: Cycle) -> bool:
    """Return True if this cycle places pods that may satisfy the pod affinity or the spread of a pending placement
    class."""
    classes = (*cycle.pending.placement_classes.failed, *cycle.known.failed)
    heeding = [found.key.gang for found in classes if found.depends_on_other_pods]
    if not heeding:
        return False
    jobs = [*(start.job for start in cycle.state.starts if start.placements), *cycle.state.places]
    kinds = {demand.kind for job in jobs for demand in cycle.cluster.jobs[job].gang.demands if demand.kind}
    shapes = (demand.shape for gang in heeding for demand in gang.demands)
    return bool(kinds) and any(arrival_may_help(shape, kind) for shape in shapes for kind in kinds)


def next_change_times_s(
    cluster: Cluster, now_s: float, starts: Sequence[Start], granted: Iterable[Request]
) -> Iterator[float]:
    """Yield the times of known future changes, in seconds since the epoch, each later than `now_s`. The changes are the
    next timer, the next begin or end of a reservation, and the next eviction from a queue above its limit. If other
    jobs depend on a start of this cycle, also yield the next representable number after `now_s`, so that a cycle
    follows at once. `starts`: the starts of jobs in this cycle. `granted`: the requests that this cycle has granted."""
    if (
        next_s := cluster.pending.timers.next_s({Deadline(request.job) for request in granted} if granted else ())
    ) is not None:
        yield next_s
    if cluster.dependencies.dependents and any(has_start_dependents(cluster, each.job) for each in starts):
        yield nextafter(now_s, inf)  # the next cycle checks the jobs that depend on starts of this cycle
    if cluster.reservations:
        yield from advance.boundaries_s(cluster, now_s)[:1]
    if cluster.tree.trimmed:
        times_s = (excess.due_s(cluster, *each) for each in excess.exceeding(cluster, now_s).items())
        yield from (time_s for time_s in times_s if time_s > now_s)


def has_start_dependents(cluster: Cluster, job: str) -> bool:
    """Return whether other jobs depend on the start of `job`."""
    others = (cluster.jobs[name].job for name in cluster.dependencies.dependents.get(job, ()))
    return any(each.job == job and each.after is DependencyType.START for other in others for each in other.after)


def is_idle(cluster: Cluster, now_s: float) -> bool:
    """Return True if there is nothing to decide: no request can start because of an event since the last plan, and no
    timer is due."""
    pending = cluster.pending
    if cluster.nominated or pending.fresh or pending.changed or (cluster.tree.eased and pending.request_classes):
        return False
    if pending.renews and pending.request_classes:
        return False
    if cluster.columns.pod_index.changed and pending.placement_classes.failed:
        return False
    if not excess.is_noted(cluster, now_s):
        return False
    is_bound = any(search.reserved is not None for search in pending.searched.values())
    if is_bound or (pending.columns.reported_blocker == Blocker.RESERVATION).any():
        return False  # the reservation may have a different start by now
    next_s = pending.timers.next_s()
    return (next_s is None or next_s > now_s) and not pending.has_due_search()
