"""The decisions of a plan, read from its actions, and the first rule that one of them breaks."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, NamedTuple

from phalanx.model.plan import Nominate, Place, Plan, Preempt, Shrink, Start

from .facts import Facts
from .rights import Victims

NOBODY: Victims = {}


class Fault(NamedTuple):
    """A broken rule. `is_late`: the plan leaves a right decision to the next cycle, which follows at once (R26)."""

    rule: str
    text: str
    is_late: bool = False


class Broken(Exception):
    """A broken rule was found. The judge stops at the first one."""

    def __init__(self, rule: str, text: str, *, is_late: bool = False) -> None:
        super().__init__(text)
        self.fault = Fault(rule, text, is_late)


class Decision(NamedTuple):
    """One decision of a plan: pods of a job are placed or nominated, after the victims are preempted. A decision
    without pods and victims withdraws a nomination."""

    is_nomination: bool
    pods: dict[int, str]
    gangs: frozenset[str] = frozenset()
    surplus: Victims = NOBODY

    def victims(self, facts: Facts) -> Victims:
        """Return the pods of each victim that terminate, by the state of the jobs at the moment of the decision."""
        return {**{name: frozenset(facts.works[name].kept()) for name in self.gangs}, **self.surplus}

    @property
    def losers(self) -> list[str]:
        return sorted({*self.gangs, *self.surplus})


def losing(units: Collection[tuple[str, int | None]]) -> dict[str, Any]:
    """Return the victims of a decision. `units`: a gang is (job, None); a pod above its job's minimum is (job,
    ordinal)."""
    surplus: dict[str, frozenset[int]] = {}
    for name, pod in units:
        if pod is not None:
            surplus[name] = surplus.get(name, frozenset()) | {pod}
    return {"gangs": frozenset(name for name, pod in units if pod is None), "surplus": surplus}


def decisions(plan: Plan) -> dict[str, list[Decision]]:
    """Return the decisions of a plan by job, in the plan's order. If a job preempts others to grow, and is preempted
    later in the same plan, then the plan does not mention the growth (R24): the decision has victims, and no pods."""
    found: dict[str, list[Decision]] = {}
    gangs: dict[str, frozenset[str]] = {}
    surplus: dict[str, dict[str, frozenset[int]]] = {}
    for action in plan.actions:
        match action:
            case Preempt(job, _, by):
                gangs[by] = gangs.get(by, frozenset()) | {job}
            case Shrink(job, slots, by):
                pods = surplus.setdefault(by, {}).get(job, frozenset())
                surplus[by][job] = pods | {slot.ordinal for slot in slots}
            case Start(job, _, placements) | Place(job, placements) | Nominate(job, placements):
                lost = (gangs.pop(job, frozenset()), surplus.pop(job, {})) if placements else ()
                nodes = {each.ordinal: each.node for each in placements}
                found.setdefault(job, []).append(Decision(isinstance(action, Nominate), nodes, *lost))
    losers = {action.job for action in plan.actions if isinstance(action, Preempt)}
    for by in {*gangs, *surplus}:
        if by not in losers:
            raise Broken("R17", f"jobs are preempted for {by}, which gets nothing")
        found.setdefault(by, []).append(Decision(True, {}, gangs.get(by, frozenset()), surplus.get(by, {})))
    return found
