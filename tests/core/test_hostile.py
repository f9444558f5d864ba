"""Absurd events: the cluster state stays exact, nothing crashes, and the reason states the place and the cause."""

from __future__ import annotations

import math
import time
from dataclasses import replace

import pytest

from phalanx.core.decide import decide
from phalanx.core.fold.fold import fold, fold_plan
from phalanx.model.event import FlavorSeen, NodeGone, QueueSeen, Started, Submitted
from phalanx.model.job import Role
from phalanx.model.node import Flavor
from phalanx.model.plan import Plan, Start, Wait
from phalanx.model.pod import DeviceShare, Shape
from phalanx.model.policy import Policy
from phalanx.model.queue import Limits, Queue, QueueOrder, Quota
from phalanx.model.reason import Reason, ReasonCode
from phalanx.state.cluster import Cluster
from tests.invariants import check_invariants

from .builders import cluster, job, node, role


def decided(book: Cluster) -> Plan:
    """One cycle, folded; the book is exact afterwards."""
    plan = decide(book, Policy(), 0.0)
    fold_plan(book, plan)
    check_invariants(book)
    return plan


def waits(plan: Plan) -> dict[str, Reason]:
    return {action.job: action.reason for action in plan.actions if isinstance(action, Wait)}


def starts(plan: Plan) -> list[str]:
    return [action.job for action in plan.actions if isinstance(action, Start)]


def gpus(name: str, parent: str = "", **quota: int) -> Queue:
    said = {what: ((("gpu", quota[what]),) if what in quota else ()) for what in ("guaranteed", "limit", "lend")}
    one = Quota(guaranteed=said["guaranteed"], limit=said["limit"], lend=said["lend"])
    return Queue(name=name, parent=parent, quotas=(one,))


@pytest.mark.parametrize(
    ("queues", "says"),
    [
        ([gpus("q", "r"), gpus("r", "q")], "queue 'q' is below itself (q > r > q)"),
        ([gpus("q", "q")], "queue 'q' is below itself (q > q)"),
        ([gpus("q", "gone")], "the parent 'gone' of queue 'q' does not exist"),
        (
            [gpus("up", guaranteed=4), gpus("q", "up", guaranteed=3), gpus("r", "up", guaranteed=2)],
            "queue 'up' is guaranteed 4 gpu, but its children are guaranteed 5 (q 3, r 2)",
        ),
        ([gpus("q", guaranteed=4, limit=2)], "queue 'q': its limit of 2 gpu is below its guarantee of 4"),
        ([gpus("q", guaranteed=-1)], "queue 'q': guaranteed gpu is -1; it must be from 0 to"),
        ([gpus("q", limit=2**63)], f"queue 'q': limit gpu is {2**63}; it must be from 0 to"),
        ([gpus("q", lend=-(2**70))], "queue 'q': lend gpu is -"),
        ([Queue(name="q", weight=math.nan)], "queue 'q': its weight is nan"),
        ([Queue(name="q", weight=math.inf)], "queue 'q': its weight is inf"),
        ([Queue(name="q", weights=(("gpu", -1.0),))], "queue 'q': its weight of gpu is -1"),
        ([Queue(name="q", total=Limits(running=-1))], "queue 'q': its limit of running per total is -1"),
        ([Queue(name="q", per_job=Limits(wall_s=math.nan))], "queue 'q': its limit of wall time per job is nan"),
        ([Queue(name="q", quotas=(Quota(flavor="spot"),))], "queue 'q' names the flavor 'spot', which does not exist"),
    ],
)
def test_a_tree_that_contradicts_itself_says_where_and_the_rest_goes_on(queues: list[Queue], says: str) -> None:
    book = cluster(node("n", gpu=4), *map(QueueSeen, queues))
    fold(book, [Submitted(job("j", role(gpu=1), queue="q")), Submitted(job("fine", role(gpu=1)))])
    plan = decided(book)
    assert waits(plan)["j"].code is ReasonCode.QUEUE_MISCONFIGURED
    assert says in waits(plan)["j"].text
    assert starts(plan) == ["fine"]


def test_a_fault_is_mended_by_telling_the_queue_anew() -> None:
    book = cluster(node("n", gpu=4), QueueSeen(gpus("q", guaranteed=-1)), job("j", role(gpu=1), queue="q"))
    assert starts(decided(book)) == []
    fold(book, [QueueSeen(gpus("q", guaranteed=1))])
    assert starts(decided(book)) == ["j"]


@pytest.mark.parametrize("amount", [2**63, 2**200])
def test_more_than_any_node_could_have_never_fits(amount: int) -> None:
    book = cluster(node("n", gpu=4), job("j", role(gpu=amount)), job("wide", role(count=10**9, gpu=1)))
    reasons = waits(decided(book))
    assert (reasons["j"].code, reasons["wide"].code) == (ReasonCode.NEVER_FITS, ReasonCode.INVALID)
    assert reasons["j"].text == f"a pod of role worker asks {amount} gpu, but the largest node has 4"
    assert reasons["j"].numbers["asked"]["gpu"] == amount
    assert "1000000000" in reasons["wide"].text


def test_nodes_that_say_they_are_infinite_do_not_overflow() -> None:
    book = cluster(node("n", gpu=2**100), QueueSeen(gpus("q", guaranteed=3)), job("j", role(gpu=4), queue="q"))
    assert starts(decided(book)) == ["j"]
    fold(book, [NodeGone("n")])
    check_invariants(book)


def test_a_node_that_says_it_has_less_than_nothing_has_nothing() -> None:
    book = cluster(node("n", gpu=-4), job("j", role(gpu=1)))
    assert waits(decided(book))["j"].code is ReasonCode.NEVER_FITS


@pytest.mark.parametrize("count", [-1, 0])
def test_a_job_without_pods_breaks_nothing(count: int) -> None:
    book = cluster(node("n", gpu=4), job("j", role(count=count, gpu=1)), job("fine", role(gpu=1)))
    assert "fine" in starts(decided(book))


@pytest.mark.parametrize("share", [DeviceShare("gpu", milli=-5), DeviceShare("gpu", milli=2**80, count=2**40)])
def test_an_absurd_share_of_a_device_breaks_nothing(share: DeviceShare) -> None:
    part = Role(name="w", count=1, minimum=1, shape=Shape(requests=(), share=share))
    book = cluster(node("n", gpu=4), QueueSeen(gpus("q", limit=4)), job("j", part, queue="q"))
    assert starts(decided(book)) == []


@pytest.mark.slow
def test_a_million_roles_are_refused_at_once() -> None:
    one = role("w", gpu=1)
    started_s = time.process_time()
    book = cluster(node("n", gpu=4), job("j", *[one] * 1_000_000))
    reason = waits(decided(book))["j"]
    assert time.process_time() - started_s < 10
    assert reason.code is ReasonCode.INVALID
    assert "1000000" in reason.text.replace(",", "").replace("_", "")


def test_half_the_nodes_are_lost_at_full_load() -> None:
    book = cluster(*(node(f"n{at}", gpu=4) for at in range(20)), QueueSeen(gpus("q", guaranteed=80)))
    fold(book, [Submitted(job(f"j{at}", role(count=4, gpu=1), queue="q")) for at in range(20)])
    plan = decided(book)
    assert len(starts(plan)) == 20
    fold(book, [Started(name, 1) for name in starts(plan)])
    fold(book, [NodeGone(f"n{at}") for at in range(10)])
    check_invariants(book)
    fold(book, [Submitted(job("late", role(gpu=1), queue="q"))])
    assert waits(decided(book))["late"].code in {ReasonCode.NO_ROOM, ReasonCode.QUEUE_QUOTA}


def test_a_quota_shrinks_at_full_load() -> None:
    book = cluster(node("n", gpu=8), QueueSeen(gpus("q", limit=8)))
    fold(book, [Submitted(job(f"j{at}", role(gpu=1), queue="q")) for at in range(8)])
    assert len(starts(decided(book))) == 8
    fold(book, [QueueSeen(gpus("q", limit=2)), Submitted(job("late", role(gpu=1), queue="q"))])
    reason = waits(decided(book))["late"]
    assert reason.code is ReasonCode.QUEUE_LIMIT
    assert (reason.numbers["used"], reason.numbers["allowed"]) == (8, 2)


@pytest.mark.slow
@pytest.mark.parametrize("order", [QueueOrder.PRIORITY, QueueOrder.FAIR])
def test_a_thousand_levels(order: QueueOrder) -> None:
    book = cluster(node("n", gpu=8))
    names = [f"q{at}" for at in range(1_000)]
    fold(book, [QueueSeen(replace(gpus(name, up), order=order)) for up, name in zip(["", *names], names, strict=False)])
    fold(book, [QueueSeen(replace(gpus("q0", guaranteed=8, lend=0), order=order))])
    fold(book, [Submitted(job("j", role(gpu=1), queue=names[-1])), Submitted(job("k", role(gpu=1), queue="q500"))])
    assert sorted(starts(decided(book))) == ["j", "k"]
    assert sorted(starts(decide_of(book.copy()))) == []


def decide_of(book: Cluster) -> Plan:
    check_invariants(book)
    return decide(book, Policy(), 0.0)


@pytest.mark.long
def test_ten_thousand_queues() -> None:
    book = cluster(node("n", gpu=8))
    started_s = time.process_time()
    fold(book, [FlavorSeen(Flavor(name="spot")), *(QueueSeen(gpus(f"q{at}", guaranteed=1)) for at in range(10_000))])
    fold(book, [Submitted(job(f"j{at}", role(gpu=1), queue=f"q{at}")) for at in range(10_000)])
    plan = decide(book, Policy(), 0.0)
    assert time.process_time() - started_s < 20
    assert len(starts(plan)) == 8
