"""The same questions answered slowly and plainly: one node, one label, one pod at a time.

Written from the Kubernetes rules, not from `core.placement.filters.matching`; tests compare the two.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TypeAlias

from phalanx.model.job import Role
from phalanx.model.node import Node, Taint
from phalanx.model.pod import Requirement, Shape, Toleration, with_pod_count


def matches(node: Node, shape: Shape) -> bool:
    """Whether a pod of the shape may go to the node, amounts aside."""
    labels = dict(node.labels)
    if not node.ready:
        return False
    taints = [taint for taint in node.taints if taint.effect != "PreferNoSchedule"]
    if node.unschedulable:
        taints.append(Taint("node.kubernetes.io/unschedulable", "", "NoSchedule"))
    if any(not any(tolerated(taint, each) for each in shape.tolerations) for taint in taints):
        return False
    if any(labels.get(key) != value for key, value in shape.selector):
        return False
    if not shape.affinity:
        return True
    return any(term and all(holds(node, requirement) for requirement in term) for term in shape.affinity)


def tolerated(taint: Taint, toleration: Toleration) -> bool:
    if toleration.effect and toleration.effect != taint.effect:
        return False
    if toleration.key and toleration.key != taint.key:
        return False
    return toleration.operator == "Exists" or toleration.value == taint.value


def holds(node: Node, requirement: Requirement) -> bool:
    values = {"metadata.name": node.name} if requirement.field else dict(node.labels)
    value = values.get(requirement.key)
    match requirement.operator:
        case "In":
            return value in requirement.values
        case "NotIn":
            return value not in requirement.values
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
        case "Gt":
            return number(value) is not None and number(value) > number(requirement.values[0])
        case "Lt":
            return number(value) is not None and number(value) < number(requirement.values[0])


def number(text: str | None) -> int | None:
    try:
        return None if text is None else int(text)
    except ValueError:
        return None


def gang_fits(nodes: Sequence[Node], free: Mapping[str, Mapping[str, int]], roles: Sequence[Role]) -> bool:
    """Whether there is any way to put every role's minimum on the nodes: every pod is tried on every node."""
    pods = [(dict(with_pod_count(role.shape.requests)), role.shape) for role in roles for _ in range(role.minimum)]
    resources = sorted({resource for asks, _ in pods for resource in asks})
    may = [[matches(node, shape) for node in nodes] for _, shape in pods]
    asks = [tuple(each.get(resource, 0) for resource in resources) for each, _ in pods]

    @cache
    def rest_fits(pod: int, left: tuple[tuple[int, ...], ...]) -> bool:
        if pod == len(pods):
            return True
        for at, amounts in enumerate(left):
            after = tuple(has - ask for has, ask in zip(amounts, asks[pod], strict=True))
            if may[pod][at] and min(after) >= 0 and rest_fits(pod + 1, (*left[:at], after, *left[at + 1 :])):
                return True
        return False

    start = tuple(tuple(free[node.name].get(resource, 0) for resource in resources) for node in nodes)
    return rest_fits(0, start)


@dataclass(frozen=True, slots=True)
class Runner:
    """A running, preemptible gang. `gpus`: the GPUs of each pod. `held`: node -> held GPUs."""

    name: str
    queue: str
    priority: int
    gpus: int
    held: Mapping[str, int]
    ran_s: float

    def __hash__(self) -> int:
        return hash(self.name)

    @property
    def total(self) -> int:
        return sum(self.held.values())


def price(gone: Iterable[Runner]) -> tuple[float, ...]:
    """Return the cost of preempting these gangs: the highest priority, whole gangs, lost work, freed GPUs."""
    gone = list(gone)
    highest = max((each.priority for each in gone), default=-(2**63))
    return highest, len(gone), sum(each.ran_s * each.total for each in gone), sum(each.total for each in gone)


Share: TypeAlias = Callable[[str, Sequence[Runner]], tuple[float, ...]]


def held(queue: str, left: Sequence[Runner]) -> tuple[float, ...]:
    """Return the share of a queue that is guaranteed nothing, side by side with others of its weight."""
    return (sum(each.total for each in left if each.queue == queue),)


def fair(
    gone: frozenset[Runner], runners: Sequence[Runner], enough: Collection[frozenset[Runner]], share: Share = held
) -> bool:
    """Return True if no victim belongs to a queue while victims of queues with larger shares would be enough, with the
    largest share first, and with shares computed again after each victim. `share`: returns the share of a queue with
    the given gangs left."""
    return not any(replaceable(each, gone - {each}, runners, enough, share) for each in gone)


def replaceable(
    one: Runner,
    rest: frozenset[Runner],
    runners: Sequence[Runner],
    enough: Collection[frozenset[Runner]],
    share: Share,
) -> bool:
    extras = (other - rest for other in enough if rest < other)
    return any(
        all(each.queue != one.queue for each in extra) and richer(extra, one.queue, rest, runners, share)
        for extra in extras
    )


def richer(
    extra: frozenset[Runner], queue: str, rest: frozenset[Runner], runners: Sequence[Runner], share: Share
) -> bool:
    left, waiting = [each for each in runners if each not in rest], sorted(extra, key=lambda each: each.total)
    while waiting:
        shares = {each.queue: share(each.queue, left) for each in waiting}
        each = max(waiting, key=lambda each: shares[each.queue])
        if shares[each.queue] <= share(queue, left):
            return False
        waiting.remove(each)
        left.remove(each)
    return True
