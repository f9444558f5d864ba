"""Play a random world through the real loop, judge every cycle, and check at the end that no job waits for ever.

A world is busy for some cycles. Then no event comes from outside: pods start and terminate, time passes, and the world
settles."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from phalanx.model.job import Phase
from phalanx.model.plan import Plan, Wait
from phalanx.model.policy import Policy

from .facts import Facts
from .judge import Fault
from .replay import LATEST, Played, Turn
from .worlds import World

QUIET = 16  # cycles in which a world may settle
# the bound that the guide states: a job is preempted at most this often while no event comes from outside
PREEMPTED = 3
RESOLVED = 4  # cycles in which a nomination is resolved once no pod terminates on its nodes


@dataclass(slots=True)
class Report:
    """A played world. `rule`: the first broken rule, or the name of a broken promise; empty: none was broken."""

    seed: int
    turns: list[Turn]
    policy: Policy
    rule: str = ""
    text: str = ""
    lates: int = 0


def play(seed: int) -> Report:
    """Play the world with that seed."""
    world = World(seed)
    played, report, waits = Played(world.policy), Report(seed, [], world.policy), dict[str, int]()
    turn, quiet = world.first_turn(), 0
    while quiet < QUIET:
        if len(report.turns) == world.cycles:
            world.is_busy = False
            world.preempted.clear()
        report.turns.append(turn)
        facts, plan, fault = played.cycle(turn, world)
        fault = _serious(fault, played, report) or next(promises(facts, world, waits), None)
        if fault is not None:
            report.rule, report.text = fault.rule, fault.text
            break
        if not world.is_busy:
            if not world.later and is_still(plan, turn.now_s):
                break
            quiet += 1
        turn = world.turn(played.cluster)
    return report


def _serious(fault: Fault | None, played: Played, report: Report) -> Fault | None:
    """Return the fault, unless it only left a decision to the next cycle (R26)."""
    if fault is not None and fault.is_late and played.lates <= LATEST:
        report.lates += 1
        return None
    return fault


def is_still(plan: Plan, now_s: float) -> bool:
    """Return whether a plan does nothing and requests no cycle at once."""
    return all(isinstance(action, Wait) for action in plan.actions) and (plan.wake_s is None or plan.wake_s > now_s)


def promises(facts: Facts, world: World, waits: dict[str, int]) -> Iterator[Fault]:
    """Yield the broken promises about whole runs. No gang is nominated with fewer pods than its minimum. A nomination
    is resolved soon after its victims have terminated. Preemption comes to an end.

    `waits`: job -> the cycles for which it has been nominated to nodes on which no pod terminates."""
    for name, work in facts.works.items():
        pods = len(work.kept()) + len(work.nominated)
        if work.phase is Phase.QUEUED and work.nominated and pods < work.minimum:
            yield Fault("gang", f"{name} is nominated with {pods} pods of its minimum {work.minimum}")
        is_resolved = not work.nominated or terminates_on(facts, set(work.nominated.values()))
        waits[name] = 0 if is_resolved else waits.get(name, 0) + 1
        if waits[name] > RESOLVED:
            yield Fault("nomination", f"{name} is nominated, and no pod terminates there any more")
        if not world.is_busy and world.preempted[name] > PREEMPTED:
            yield Fault("rest", f"{name} was preempted {world.preempted[name]} times while nothing happened")


def terminates_on(facts: Facts, nodes: set[str]) -> bool:
    """Return whether a pod terminates on one of the nodes."""
    return any(
        node in nodes
        for work in facts.works.values()
        for ordinal, node in work.pods.items()
        if work.phase is Phase.STOPPING or ordinal in work.leaving
    )
