"""Consolidation: move running jobs to other nodes in order to make a pending job fit (as KAI's action "consolidation").

Free capacity may be enough for a pending job in total, but split over too many nodes. Then movable jobs are stopped and
nominated to other nodes. Jobs are moved only if the pending job cannot start otherwise and can start after the moves.
Before any job is stopped, the search finds new placements for all moved jobs on the draft. They use capacity that is
free now or that other moved jobs leave. So each consolidation increases the number of running jobs, and there can be no
endless series of consolidations.

Only whole gangs are moved, and only gangs of queues with the setting `consolidate`. Their priority does not matter.
Movable jobs are protected by the same rules as victims of preemption (opt-out, minimum run time, hourly budget). The
search for victims also finds the jobs to move. If one of them cannot be placed on other nodes, the search is repeated
without this job. There are at most `ATTEMPTS` searches."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from phalanx.core.preemption import nomination
from phalanx.core.preemption.candidates import Victim
from phalanx.core.preemption.context import PreemptionContext
from phalanx.core.preemption.policy import Mask, PreemptionPolicy, PreemptionRule, latest_start_s, queue_preemption
from phalanx.core.preemption.search import PreemptionPlan, VictimSearch
from phalanx.core.quota.flavor_assignment import FlavorAssignment
from phalanx.model.job import Job, Placement, pods_by_role
from phalanx.state.cluster import JobRecord
from phalanx.state.queues.quota import Charge

ATTEMPTS = 8


class MovePolicy(PreemptionPolicy):
    """The policy for consolidation: a pending job may move any job that is movable."""

    preempts = False

    def may_be_asked(self) -> tuple[Mask, NDArray[np.int64]]:
        """Return two arrays, indexed by job number: the mask of the jobs that may be moved, and the tier of each
        job."""
        queues = self.running_pods.queues
        latest = np.full(len(queues), -np.inf)
        for number, name in enumerate(queues):
            theirs = queue_preemption(self.cluster, name)
            if theirs.consolidate and self._budget(name) > 0:
                latest[number] = latest_start_s(theirs, self.now_s)
        may = self.running_pods.of_jobs("preemptible").astype(np.bool_)
        may &= self.running_pods.of_jobs("started_s") <= latest[self.running_pods.of_jobs("queue")]
        return may, np.zeros(len(may), np.int64)

    def rule_for(self, number: int, *, whole: bool, loss: Callable[[], Charge | None]) -> PreemptionRule | None:
        """Return the rule that allows moving the job; None if no rule allows it."""
        queue = self.running_pods.queues[self.running_pods.of_jobs("queue")[number]]
        return PreemptionRule.CONSOLIDATION if whole and self._budget(queue) > 0 else None


def find_moves(context: PreemptionContext, job: Job, offer: FlavorAssignment) -> PreemptionPlan | None:
    """Return a plan that moves running jobs so that `job` can start; None if moves do not make this possible. The draft
    and the ledger are unchanged when the function returns."""
    # Jobs with named devices are not moved. A moved job would have old and new devices for some time, but a slot in the
    # state has only one list of devices.
    records = ((name, context.cluster.jobs[name]) for name in context.running_pods.number_of)
    spared = {name for name, record in records if record.devices or not record.job.movable} | {*context.victims}
    for _ in range(ATTEMPTS):
        drafted, entered = context.draft.mark(), context.ledger.mark()
        try:
            found = VictimSearch(context, job, offer, rights=MovePolicy, spared=spared).run()
            if found is None:
                return None
            moved = [new_placements(context, victim) for victim in found.victims]
        finally:
            context.draft.rewind(drafted)
            context.ledger.rewind(entered)
        stuck = [victim.job for victim, place in zip(found.victims, moved, strict=True) if place is None]
        if not stuck:
            places = zip(found.victims, moved, strict=True)
            return replace(found, victims=tuple(replace(victim, place=tuple(place or ())) for victim, place in places))
        spared.update(stuck)
    return None


def new_placements(context: PreemptionContext, victim: Victim) -> list[Placement] | None:
    """Place the victim on other nodes of the draft, with the same number of pods of each role, and return the new
    placements. Return None if the victim fits only on its present nodes, or on no nodes.

    A moved job starts from the beginning. So each role needs its full minimum again, even if some pods of the role have
    already finished."""
    cluster, record = context.cluster, context.cluster.jobs[victim.job]
    has = pods_by_role(record.placements, len(record.job.roles))
    needed = record.gang.required_roles
    least = [role.minimum if has[at] or at in needed else 0 for at, role in enumerate(record.job.roles)]
    pods = list(map(max, has, least))
    if not record.gang.enough(pods):
        return None
    placements = nomination.place_pods(cluster, context.draft, record, pods, context.now_s)
    return placements if placements and changes_node(record, placements) else None


def changes_node(record: JobRecord, placements: Sequence[Placement]) -> bool:
    """Return whether, with `placements`, at least one pod of the job would be on another node than now."""
    now = Counter((slot.role, node) for slot, node in record.placements.items())
    return now != Counter((each.role, each.node) for each in placements)
