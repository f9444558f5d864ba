"""Carry out the plans of the core: pass each action to its gang, or to the node groups.

`KubeWorld` passes each plan to `PlanExecution`. A short plan is carried out at once. A long plan is carried out in
slices while the world waits for events, so that other tasks can run in between. If a decision overcommitted a node, all
objects are listed again first (`capacity.breaches`). Each gang with a decision is marked, so that it is reconciled.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable, Iterator, Mapping

from phalanx.kube.capacity.breaches import BreachRelist
from phalanx.kube.gang.lifecycle import decisions
from phalanx.kube.gang.lifecycle.gang import GangLifecycle
from phalanx.kube.routing.quota_headroom import QuotaHeadroom
from phalanx.kube.status.dependency_outcomes import DependencyOutcomes
from phalanx.kube.status.dialect_answers import DialectAnswers
from phalanx.kube.world.capacity_sources import NodeProvisioning
from phalanx.kube.world.slices import MANY, run_in_slices
from phalanx.kube.write.effects import ApiEffects
from phalanx.model.event import Refused
from phalanx.model.plan import Action, Nominate, Place, Plan, Preempt, ReleaseNodes, RequestNodes, Shrink, Start, Wait
from phalanx.model.reason import Reason


class PlanExecution:
    """The execution of plans. `left`: the actions of the plan that are not carried out yet. `gangs`: all gangs, by id.
    `is_whole`: a function that gets a queue and returns True if the minimum of each of the queue's jobs must start
    together. `nodes`: the node groups; None if the cluster has no node groups. `breaches`: a function that returns how
    many decisions have overcommitted a node so far. `mark`: a function that marks a gang to be reconciled."""

    def __init__(
        self,
        gangs: Mapping[str, GangLifecycle],
        *,
        is_whole: Callable[[str], bool],
        headroom: QuotaHeadroom,
        effects: ApiEffects,
        answers: DialectAnswers,
        outcomes: DependencyOutcomes,
        nodes: NodeProvisioning | None,
        breaches: Callable[[], int],
        mark: Callable[[str], None],
    ) -> None:
        self._gangs, self._is_whole, self._headroom = gangs, is_whole, headroom
        self._effects, self._answers, self._outcomes = effects, answers, outcomes
        self._nodes, self._breaches, self._mark = nodes, BreachRelist(breaches), mark
        self.left: deque[Action] = deque()

    def apply(self, plan: Plan) -> None:
        """Carry out the plan now if it is short, unless the objects must be listed again first."""
        self.left.extend(plan.actions)
        if len(self.left) <= MANY and not self._breaches.must_relist():
            self.finish()

    def finish(self) -> None:
        """Carry out all actions that are left."""
        for _ in self._carry_out():
            pass

    async def finish_in_slices(self, list_again: Callable[[], Awaitable[None]]) -> None:
        """Carry out all actions that are left, and let other tasks run in between. `list_again`: a function that lists
        the objects again."""
        await self._breaches.relist_if_due(list_again)
        await run_in_slices(self._carry_out())

    def give_back(self, gang: str, attempt: int, why: Reason, avoid_s: Mapping[str, float]) -> None:
        """Undo a start that another cluster cannot run (see `decisions.give_back`)."""
        if (found := self._gangs.get(gang)) is not None:
            decisions.give_back(found, attempt, why, avoid_s)
            self._mark(gang)

    def _carry_out(self) -> Iterator[None]:
        while self.left:
            yield
            action = self.left.popleft()
            if isinstance(action, RequestNodes | ReleaseNodes):
                if self._nodes is not None:
                    self._nodes.apply(action)
            elif (gang := self._gangs.get(action.job)) is not None:
                self._decide(gang, action)
            # If the gang is not found, it was deleted during the decision. The next events report its deletion to the
            # core.
        if self._outcomes.due:
            self._outcomes.write()

    def _decide(self, gang: GangLifecycle, action: Action) -> None:
        match action:
            case Start():
                self._start(gang, action)
            case Place():
                decisions.place(gang, action.placements)
            case Preempt():
                decisions.preempt(gang, action)
            case Shrink():
                decisions.shrink(gang, action)
            case Wait():
                self._effects.reporter.waits(gang, action.reason)
                self._answers.waits(gang.id, action.reason)
            case Nominate():
                pass  # nothing to write: after a restart, the nomination is found by the marks on the victims
        if not isinstance(action, Wait | Nominate):
            self._mark(gang.id)

    def _start(self, gang: GangLifecycle, action: Start) -> None:
        """Start the gang if the ResourceQuotas of its namespace still admit its pods. An earlier start may have
        reserved quota since the decision."""
        whole, has_quotas = self._is_whole(gang.queue), bool(self._headroom.limited)
        reason = self._headroom.refusal(gang) if whole and has_quotas else None
        if reason is None:
            decisions.start(gang, action, whole=whole)
            if has_quotas:
                self._headroom.settle(gang)
        else:
            self._effects.emit_event(Refused(gang.id, action.attempt, reason))
