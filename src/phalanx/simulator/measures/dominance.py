"""Dominant shares (Ghodsi et al., NSDI'11).

A party's dominant share in a round is the largest fraction that it used of any resource of the cluster. The *gap* is
the difference between the largest and the smallest dominant share, among the parties that used any resource or waited.
Parties and rounds are those of `fairness`. A party's fair part and its demand are ignored. So two parties with
different demands have a wide gap, even if their parts are fair."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from phalanx.model.pod import PODS
from phalanx.simulator.measures.fairness import Used, parties, round_s_of, rounds
from phalanx.simulator.schedule.schedule import Schedule
from phalanx.simulator.schedule.statistic import mean
from phalanx.simulator.schedule.sweep import capacity, window


def dominance(schedule: Schedule) -> dict[str, float]:
    gaps = [max(shares.values()) - min(shares.values()) for shares in dominant_shares(schedule) if shares]
    return {"dominant_share_gap": mean(gaps), "max_dominant_share_gap": max(gaps)} if gaps else {}


def dominant_shares(schedule: Schedule) -> Iterator[Used]:
    """Yield for each round the dominant share of each party that used any resource or waited."""
    (since_s, until_s), (of, _) = window(schedule), parties(schedule)
    if until_s <= since_s:
        return
    round_s = round_s_of(until_s - since_s)
    each = [counting(schedule, name) for name in asked(schedule)]
    has = [capacity(one) for one in each]
    for by_resource in zip(*(rounds(one, of, since_s, until_s, round_s) for one in each), strict=True):
        shares: Used = {}
        for (used, waited), there in zip(by_resource, has, strict=True):
            for party in (*used, *waited):
                shares[party] = max(shares.get(party, 0.0), used.get(party, 0.0) / (there * round_s))
        yield shares


def counting(schedule: Schedule, resource: str) -> Schedule:
    """Return the schedule with another counted resource."""
    return replace(schedule, workload=replace(schedule.workload, counted=resource, unit=1))


def asked(schedule: Schedule) -> list[str]:
    """Return the resources that jobs request and nodes have, except `pods`."""
    every = {id(roles): roles for roles in (fate.task.job.roles for fate in schedule.fates)}  # tasks share role tuples
    shapes = {role.shape for roles in every.values() for role in roles}
    names = {name for shape in shapes for name, amount in shape.requests if amount}
    names |= {shape.share.resource for shape in shapes if shape.share is not None}
    there = {name for node in schedule.nodes for name, amount in node.allocatable if amount}
    return sorted((names & there) - {PODS})
