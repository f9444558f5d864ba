"""Capacity of nodes: where pods fit (R10, R17), and the reservation of the first request without capacity (R13)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import NamedTuple

from phalanx.model.job import Phase

from .facts import Facts, Nodes, Work, plus
from .order import Request
from .tree import Amounts


def free(facts: Facts, *, is_soon: bool = False, gone: Mapping[str, Collection[int]] | None = None) -> Nodes:
    """Return the amounts that nodes have free: neither pods nor nominations hold them. `is_soon`: terminating pods
    count as gone (R17). `gone`: job -> ordinals of further pods that count as gone."""
    left = dict(facts.nodes)
    for name, work in facts.works.items():
        pods = work.kept() if is_soon else work.pods
        held = [node for ordinal, node in pods.items() if not gone or ordinal not in gone.get(name, ())]
        take(left, [*held, *work.nominated.values()], work.asks)
    return left


def take(left: Nodes, nodes: Iterable[str], asks: Amounts, pods: int = 1) -> None:
    """Charge `pods` pods to each of the nodes; -1: give one pod back."""
    for node in nodes:
        if node in left:
            left[node] = plus(left[node], asks, -pods)


def places(left: Nodes, asks: Amounts) -> Counter[str]:
    """Return how many pods fit on each node. A node over capacity takes no pod (R10)."""
    return Counter(
        {
            node: min((has // ask for has, ask in zip(amounts, asks, strict=True) if ask), default=0)
            for node, amounts in left.items()
            if min(amounts) >= 0
        }
    )


def fits(left: Nodes, asks: Amounts, pods: int) -> bool:
    """R10: return whether nodes have capacity for `pods` equal pods at the same time."""
    return places(left, asks).total() >= pods


def ways(room: Mapping[str, int], pods: int) -> Iterator[dict[str, int]]:
    """Yield every way to spread the pods over the nodes."""
    if not pods:
        yield {}
    elif room:
        (node, most), *rest = room.items()
        for here in range(min(most, pods), -1, -1):
            for way in ways(dict(rest), pods - here):
                yield {**way, **({node: here} if here else {})}


class Reservation(NamedTuple):
    """The reservation of a request (R13): its minimum, at its shadow time."""

    request: Request
    at_s: float


def ends_s(facts: Facts, work: Work) -> float:
    """R13: return when the job ends: at its time limit, which counts from now if the job has not started."""
    return (facts.now_s if work.phase is Phase.QUEUED else work.started_s) + (work.job.limit_s or float("inf"))


def free_at(facts: Facts, at_s: float, gone: Mapping[str, Collection[int]] | None = None) -> Nodes:
    """R13: return the amounts that are free at that time, if started jobs end at their time limits, overdue jobs and
    terminating pods end now, and nominated jobs run from now on."""
    left = dict(facts.nodes)
    for name, work in facts.works.items():
        if ends_s(facts, work) > at_s:
            held = [node for ordinal, node in work.kept().items() if not gone or ordinal not in gone.get(name, ())]
            take(left, [*held, *work.nominated.values()], work.asks)
    return left


def reserve(facts: Facts, request: Request) -> Reservation | None:
    """R13: return the reservation of a request that found no capacity; None if its start time cannot be foreseen."""
    ends = {ends_s(facts, work) for work in facts.works.values() if work.pods or work.nominated}
    asks = request.work.asks
    for at_s in sorted({max(each, facts.now_s) for each in ends | {facts.now_s} if each < float("inf")}):
        if fits(free_at(facts, at_s), asks, request.pods):
            return Reservation(request, at_s)
    return None


def respects(
    facts: Facts,
    held: Reservation | None,
    work: Work,
    way: Mapping[str, int],
    gone: Mapping[str, Collection[int]] | None = None,
) -> bool:
    """R13: return whether the job may take these pods beside the reservation: it ends before the shadow time, or the
    first request still fits at that time on some nodes."""
    if held is None or held.request.work is work or ends_s(facts, work) <= held.at_s:
        return True
    left = free_at(facts, held.at_s, gone)
    for node, pods in way.items():
        take(left, [node], work.asks, pods)
    return fits(left, held.request.work.asks, held.request.pods)


def may_take(
    facts: Facts,
    held: Reservation | None,
    request: Request,
    left: Nodes,
    gone: Mapping[str, Collection[int]] | None = None,
) -> bool:
    """R10, R13: return whether there is a way to place the request that respects the reservation."""
    room = places(left, request.work.asks)
    if room.total() < request.pods or not respects(facts, held, request.work, {}, gone):
        return False
    return any(respects(facts, held, request.work, way, gone) for way in ways(room, request.pods))
