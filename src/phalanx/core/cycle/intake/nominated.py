"""Handle nominated jobs. Start the jobs whose victims have left. If the victims of a job do not leave in time, withdraw
the job's nomination, or nominate the job to other nodes.

If a nomination is withdrawn, the next cycle decides about the job again."""

from __future__ import annotations

from phalanx.core.cycle.intake.receive import not_eligible
from phalanx.core.cycle.preempt.search import CyclePreemption
from phalanx.core.cycle.state import CycleState
from phalanx.core.preemption import nomination
from phalanx.core.preemption.nomination import NominationState
from phalanx.core.reasons import preempted
from phalanx.model.job import Phase
from phalanx.state.cluster import JobRecord, nominated_placements, time_limit_s
from phalanx.state.pending.request_class import Request


def start_nominated(state: CycleState, preempting: CyclePreemption) -> None:
    """Withdraw nominations, or move them to other nodes, where this is necessary. If it is necessary for no nomination,
    start the nominated jobs whose nodes are free."""
    found = [*preempting.nominations()]
    for record, next_step in found:
        if next_step is NominationState.BROKEN or is_hindered(state, record):
            preempting.withdraw(record)
        elif next_step is NominationState.KEPT and state.now_s >= record.nominated_until_s:
            preempting.move(record)
    for record, next_step in found if not state.withdrawn else ():
        request, waits = Request(record.job.id), record.phase is Phase.QUEUED
        waiting = [request] if waits else [Request(request.job, slot) for slot in record.nominated]
        state.waiting_for_event |= dict.fromkeys(waiting)
        if next_step is NominationState.FREE:
            placements = nominated_placements(record)
            if waits:
                state.start(record, time_limit_s(state.cluster, record.job), placements, record.flavors)
            else:
                state.places[request.job] = list(placements)
            state.placed.append((record.gang, request.job, placements))
        else:
            leavers = nomination.leavers(record, state.leaving)
            state.waits[request.job] = preempted.nominated_reason(state.cluster, record, leavers, state.now_s)


def is_hindered(state: CycleState, record: JobRecord) -> bool:
    """Return whether the job must lose its nomination because it is queued, but no longer eligible."""
    if record.phase is not Phase.QUEUED:
        return False
    branch = state.cluster.tree.branches[record.queue]
    return not_eligible(state.cluster, branch, record, state.now_s, state.cleared) is not None
