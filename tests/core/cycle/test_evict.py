"""`core/cycle/preempt/evict.py`: a plan with victims becomes evictions, nominations and starts."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from phalanx.core.cycle.preempt import evict
from phalanx.core.cycle.state import CycleState
from phalanx.core.decide import decide
from phalanx.core.fold.fold import fold_plan
from phalanx.core.preemption.nomination import PATIENCE_S
from phalanx.model.event import Adopted, QueueSeen
from phalanx.model.job import Job, Phase, Placement, Slot
from phalanx.model.plan import Nominate, Place, Plan, Preempt, Shrink, Start
from phalanx.model.policy import Policy
from phalanx.model.queue import Queue, QueuePreemption, Quota, ReclaimWithinCohort, WithinQueue
from phalanx.model.reason import ReasonCode
from phalanx.state.cluster import Cluster
from tests.core.builders import cluster, job, node, role
from tests.invariants import check_invariants

NOW_S = 100.0


def queue(name: str = "default", *, limit: int | None = None, **preemption: Any) -> QueueSeen:
    rights = QueuePreemption(**{"within": WithinQueue.LOWER, **preemption})
    quotas = () if limit is None else (Quota(limit=(("cpu", limit),)),)
    return QueueSeen(Queue(name=name, preemption=rights, quotas=quotas))


def asks(name: str, cpu: int, *, pods: int = 1, minimum: int | None = None, **fields: Any) -> Job:
    return replace(job(name, role(count=pods, minimum=minimum, cpu=cpu), at=fields.pop("at", 0.0)), **fields)


def runs(asked: Job, *nodes: str, open: tuple[Slot, ...] = ()) -> Adopted:
    placed = tuple(Placement(0, at, name) for at, name in enumerate(nodes))
    return Adopted(asked, 3, Phase.RUNNING, placed, open=open, started_s=NOW_S - 50.0)


def decided(book: Cluster) -> Plan:
    made = decide(book, Policy(), NOW_S)
    fold_plan(book, made)
    assert not check_invariants(book)
    return made.plan


def of(plan: Plan, kind: type) -> list[Any]:
    return [action for action in plan.actions if isinstance(action, kind)]


# --- what is written into the plan ------------------------------------------------------------------------------------


def test_a_gang_is_evicted_whole_and_the_preemptor_is_nominated_to_its_nodes() -> None:
    book = cluster(
        queue(),
        node("a", cpu=4),
        node("b", cpu=4),
        runs(asks("low", 4, pods=2), "a", "b"),
        asks("urgent", 3, priority=9),
    )
    plan = decided(book)
    [victim] = of(plan, Preempt)
    assert (victim.job, victim.attempt, victim.by, victim.grace_s) == ("low", 3, "urgent", None)
    assert victim.reason.code is ReasonCode.PREEMPTED
    [nominated] = of(plan, Nominate)
    assert (nominated.job, len(nominated.placements), nominated.until_s) == ("urgent", 1, NOW_S + PATIENCE_S)
    assert of(plan, Start) == [], "the victim's pods are still there"


def test_the_grace_period_of_the_victims_queue_lengthens_the_nomination() -> None:
    book = cluster(queue(grace_s=30.0), node("a", cpu=4), runs(asks("low", 4), "a"), asks("urgent", 4, priority=9))
    plan = decided(book)
    assert of(plan, Preempt)[0].grace_s == 30.0
    assert of(plan, Nominate)[0].until_s == NOW_S + PATIENCE_S + 30.0


def test_pods_above_the_minimum_are_evicted_alone() -> None:
    low = runs(asks("low", 2, pods=3, minimum=1), "a", "a", "a")
    book = cluster(queue(), node("a", cpu=6), low, asks("urgent", 4, priority=9))
    plan = decided(book)
    [shrunk] = of(plan, Shrink)
    assert (shrunk.job, shrunk.by, set(shrunk.slots)) == ("low", "urgent", {Slot(0, 1), Slot(0, 2)})
    assert of(plan, Preempt) == []


def test_if_only_quota_is_short_the_preemptor_starts_at_once() -> None:
    """Rule R21."""
    book = cluster(queue(limit=4), node("a", cpu=99), runs(asks("low", 4), "a"), asks("urgent", 4, priority=9))
    plan = decided(book)
    assert [action.job for action in of(plan, Preempt)] == ["low"]
    [start] = of(plan, Start)
    assert (start.job, start.attempt, start.at_s, len(start.placements)) == ("urgent", 1, NOW_S, 1)
    assert of(plan, Nominate) == []


def test_a_growing_job_is_nominated_with_its_earlier_nominations() -> None:
    rights = QueuePreemption(reclaim=ReclaimWithinCohort.ANY)
    owner = QueueSeen(Queue(name="default", quotas=(Quota(guaranteed=(("cpu", 8),)),), preemption=rights))
    grows = runs(asks("grows", 2, pods=3, minimum=1), "a", open=(Slot(0, 1), Slot(0, 2)))
    guest = replace(asks("guest", 6), queue="other")
    book = cluster(owner, QueueSeen(Queue(name="other")), node("a", cpu=8), grows, runs(guest, "a"))
    plan = decided(book)
    assert [action.job for action in of(plan, Preempt)] == ["guest"]
    [nominated] = of(plan, Nominate)
    assert nominated.job == "grows"
    assert {(each.role, each.ordinal) for each in nominated.placements} == {(0, 1), (0, 2)}


def test_a_victim_loses_what_this_cycle_has_given_it() -> None:
    """Rule R24: a job that stops has neither nominations nor new pods."""
    grows = runs(asks("low", 2, pods=2, minimum=1), "a", open=(Slot(0, 1),))
    book = cluster(queue(), node("a", cpu=4), grows, asks("urgent", 4, priority=9))
    plan = decided(book)
    given = {action.job for action in plan.actions if isinstance(action, Place | Nominate)}
    assert [action.job for action in of(plan, Preempt)] == ["low"]
    assert "low" not in given


def test_nothing_is_charged_twice_or_lost() -> None:
    """At the end of the cycle, its draft and its ledger equal the state after the plan."""
    book = cluster(
        queue(limit=8),
        node("a", cpu=4),
        node("b", cpu=4),
        runs(asks("l1", 4), "a"),
        runs(asks("l2", 4), "b"),
        asks("u1", 4, priority=9),
        asks("u2", 3, priority=8, at=1),
    )
    plan = decided(book)
    assert sorted(action.job for action in of(plan, Preempt)) == ["l1", "l2"]
    assert sorted(action.job for action in of(plan, Nominate)) == ["u1", "u2"]
    again = decided(book)
    assert not [action for action in again.actions if isinstance(action, Preempt | Nominate | Start)], "both wait"


# --- the parts --------------------------------------------------------------------------------------------------------


def test_the_grace_period_is_that_of_the_jobs_queue() -> None:
    book = cluster(
        queue(grace_s=7.0),
        QueueSeen(Queue(name="plain")),
        node("a", cpu=9),
        runs(asks("j", 1), "a"),
        runs(replace(asks("k", 1), queue="plain"), "a"),
    )
    assert (evict.grace_s(book, "j"), evict.grace_s(book, "k")) == (7.0, None)


@pytest.mark.parametrize(("cpu", "overcommitted"), [(4, False), (5, True)])
def test_a_node_that_a_nomination_overfills_takes_no_further_pod(cpu: int, overcommitted: bool) -> None:
    """Rule R10; not even a pod that requests another resource."""
    nodes = (node("a", cpu=8, memory=2), node("b", cpu=8, memory=2))
    small = job("small", role(memory=1))
    book = cluster(*nodes, runs(asks("r", 4), "a"), asks("j", cpu), small)
    draft = CycleState(book, Policy(), NOW_S).draft
    [demand] = book.jobs["small"].gang.demands
    assert draft.room(demand) == 4
    assert evict.keep_nomination(draft, book, book.jobs["j"].gang, [Placement(0, 0, "a")]) is overcommitted
    assert draft.room(demand) == (2 if overcommitted else 4)
