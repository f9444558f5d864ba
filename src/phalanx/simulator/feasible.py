"""Jobs that can never run, found before anything is played: they ask more than the empty cluster has.

Amounts are compared, node by node; what else may stand in a job's way (a selector, a queue's limit, a topology) its
reason says at the end."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from phalanx.model.amount import shown
from phalanx.model.job import Role
from phalanx.model.shape import Amounts
from phalanx.simulator.workload import Task, Workload


def never_fitting(workload: Workload) -> list[tuple[Task, str]]:
    """Each such task, and why."""
    kinds = Counter(node.allocatable for node in workload.nodes)
    answers: dict[tuple[Role, ...], str] = {}
    found = []
    for task in workload.tasks:
        roles = task.job.roles
        if roles not in answers:
            answers[roles] = next(filter(None, (too_large(role, kinds) for role in roles)), "")
        if answers[roles]:
            found.append((task, answers[roles]))
    return found


def too_large(role: Role, kinds: Mapping[Amounts, int]) -> str:
    """Why the role's minimum does not fit the empty cluster; empty: it does."""
    room = sum(count * pods_on(dict(kind), role) for kind, count in kinds.items())
    if room >= role.minimum:
        return ""
    asked = ", ".join(f"{shown(name, amount)} {name}" for name, amount in role.shape.requests)
    pods = "a pod" if role.minimum == 1 else f"{role.minimum} pods"
    return f"{pods} of {asked} each: the empty cluster holds {room}"


def pods_on(room: dict[str, int], role: Role) -> int:
    asked = [(name, amount) for name, amount in role.shape.requests if amount > 0]
    share = role.shape.share
    if share is not None:
        asked.append((share.resource, share.count))
    return min((room.get(name, 0) // amount for name, amount in asked), default=role.minimum)
