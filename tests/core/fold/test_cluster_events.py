"""`core/fold/cluster_events.py`: events about the cluster change the state, and wake the jobs that they concern."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from phalanx.core.decide import decide
from phalanx.core.fold import cluster_events
from phalanx.core.fold.fold import fold, fold_plan
from phalanx.model.event import (
    Event,
    FlavorGone,
    FlavorSeen,
    NodeGone,
    NodeSeen,
    Occupied,
    PolicySeen,
    QueueGone,
    QueueSeen,
    ReservationGone,
    ReservationSeen,
    RunTold,
    Ticked,
    TopologiesSeen,
    UsageTold,
    Vacated,
)
from phalanx.model.job import Job
from phalanx.model.node import Flavor, Reservation, Topology
from phalanx.model.plan import Plan, Start
from phalanx.model.pod import HostPort
from phalanx.model.policy import BackfillOrder, Policy
from phalanx.model.queue import Queue, QueueState, Quota, UsageTerms
from phalanx.state.cluster import Cluster
from tests.core.builders import cluster, free, job, node, role
from tests.invariants import check_invariants

POLICY = Policy()


def settled(*news: Any) -> Cluster:
    """Return a cluster after one cycle, in which each waiting job got its reason."""
    book = cluster(*news)
    step(book)
    return book


def step(book: Cluster, policy: Policy = POLICY, now_s: float = 0.0) -> Plan:
    found = decide(book, policy, now_s)
    fold_plan(book, found)
    assert not check_invariants(book)
    return found.plan


def started(plan: Plan) -> list[str]:
    return [action.job for action in plan.actions if isinstance(action, Start)]


def fresh(book: Cluster) -> set[str]:
    """The jobs that the next cycle receives again."""
    return {request.job for request in book.pending.fresh}


def asks(name: str, cpu: int = 8, **fields: Any) -> Job:
    return replace(job(name, role(cpu=cpu), queue=fields.pop("queue", "default")), **fields)


# --- nodes ------------------------------------------------------------------------------------------------------------


def test_a_new_node_lets_a_waiting_job_start() -> None:
    book = settled(node("a", cpu=4), asks("j"))
    fold(book, [NodeSeen(node("b", cpu=8))])
    assert started(step(book)) == ["j"]


def test_a_node_that_is_seen_again_unchanged_changes_nothing() -> None:
    book = settled(node("a", cpu=4), asks("j"))
    fold(book, [NodeSeen(node("a", cpu=4))])
    assert step(book) == Plan()


def test_a_node_that_is_gone_has_no_capacity_and_its_row_is_used_again() -> None:
    book = settled(node("a", cpu=4))
    fold(book, [NodeGone("a"), NodeGone("never-there")])
    assert "a" not in book.columns.row_of
    fold(book, [NodeSeen(node("b", cpu=8))])
    assert free(book, "b") == 8


# --- foreign pods -----------------------------------------------------------------------------------------------------


def test_a_foreign_pod_charges_its_node_until_it_is_gone() -> None:
    book = settled(node("a", cpu=8))
    fold(book, [Occupied("p", "a", (("cpu", 3),))])
    assert free(book, "a") == 5
    fold(book, [Occupied("p", "a", (("cpu", 5),))])
    assert free(book, "a") == 3, "a changed pod replaces the earlier one"
    fold(book, [Vacated("p"), Vacated("p"), Vacated("unknown")])
    assert free(book, "a") == 8


def test_a_foreign_pod_on_an_unknown_node_counts_when_the_node_appears() -> None:
    book = settled(Occupied("p", "late", (("cpu", 3),)), node("a", cpu=8))
    fold(book, [NodeSeen(node("late", cpu=8))])
    assert free(book, "late") == 5


def test_a_foreign_pod_whose_ports_change_is_stored_anew() -> None:
    book = settled(node("a", cpu=8))
    for ports in ((), (HostPort(80),)):
        fold(book, [Occupied("p", "a", (("cpu", 3),), ports=ports)])
        assert book.foreign_identity.get("p", (None, ()))[1] == ports
    assert free(book, "a") == 5


# --- queues -----------------------------------------------------------------------------------------------------------


def test_a_changed_queue_wakes_its_jobs_and_no_others() -> None:
    queues = (QueueSeen(Queue(name="q")), QueueSeen(Queue(name="other")))
    book = settled(*queues, node("a", cpu=4), asks("mine", queue="q"), asks("theirs", queue="other"))
    assert fresh(book) == set()
    fold(book, [QueueSeen(Queue(name="q", state=QueueState.HELD))])
    cluster_events.tree_changed(book)
    assert fresh(book) == {"mine"}


def test_a_queue_that_is_seen_again_unchanged_changes_nothing() -> None:
    book = settled(QueueSeen(Queue(name="q")), node("a", cpu=4), asks("j", queue="q"))
    fold(book, [QueueSeen(Queue(name="q"))])
    assert step(book) == Plan()


def test_a_job_starts_when_its_queue_appears_and_not_before() -> None:
    book = settled(node("a", cpu=8), asks("j", queue="later"))
    assert book.reason("j") is not None
    fold(book, [QueueSeen(Queue(name="later"))])
    assert started(step(book)) == ["j"]


def test_a_raised_limit_lets_a_job_start() -> None:
    def limited(cpu: int) -> Event:
        return QueueSeen(Queue(name="q", quotas=(Quota(limit=(("cpu", cpu),)),)))

    book = settled(limited(4), node("a", cpu=8), asks("j", queue="q"))
    fold(book, [limited(8)])
    assert started(step(book)) == ["j"]


def test_jobs_of_a_deleted_queue_wait_with_another_reason() -> None:
    book = settled(QueueSeen(Queue(name="q")), node("a", cpu=4), asks("j", queue="q"))
    before = book.reason("j")
    fold(book, [QueueGone("q"), QueueGone("q")])
    step(book)
    assert book.reason("j") != before


def test_usage_in_a_deleted_queue_decays_as_the_policy_states() -> None:
    terms = UsageTerms(half_life_s=60.0, billing=(("cpu", 1.0),))
    book = settled(QueueSeen(Queue(name="q", usage=terms)))
    fold(book, [UsageTold("q", "ada", 5.0, 0.0)])
    assert book.usage.of("q", "ada", 60.0) == 2.5
    fold(book, [QueueGone("q")])
    assert book.usage.of("q", "ada", 60.0) > 4.9, "the half-life of the policy is a week"
    fold(book, [QueueSeen(Queue(name="q", usage=terms))])
    assert book.usage.of("q", "ada", 60.0) == 2.5


# --- flavors, topologies, reservations --------------------------------------------------------------------------------


def test_a_flavor_that_appears_gives_its_queue_the_nodes() -> None:
    queue = QueueSeen(Queue(name="q", quotas=(Quota(flavor="fast", limit=(("cpu", 8),)),)))
    book = settled(queue, node("a", cpu=8, labels={"kind": "fast"}), asks("j", queue="q"))
    assert started(step(book)) == []
    fold(book, [FlavorSeen(Flavor(name="fast", labels=(("kind", "fast"),)))])
    assert started(step(book)) == ["j"]
    fold(book, [FlavorGone("fast"), FlavorGone("fast")])
    assert "fast" not in book.flavors


def test_topologies_are_stored_once() -> None:
    book = settled(node("a", cpu=4), asks("j"))
    event = TopologiesSeen((Topology(levels=("rack",)),))
    fold(book, [event])
    assert book.declared_topologies == event.topologies
    step(book)
    fold(book, [event])
    assert step(book) == Plan()


def test_a_reservation_that_is_gone_lets_others_in() -> None:
    reserved = Reservation(name="r", start_s=0.0, end_s=1e6, nodes=("a",), users=("ada",))
    book = settled(ReservationSeen(reserved), node("a", cpu=8), asks("j", user="eve"))
    assert started(step(book)) == []
    fold(book, [ReservationGone("r"), ReservationGone("r")])
    assert started(step(book)) == ["j"]


# --- policy, run times, time ------------------------------------------------------------------------------------------


def test_jobs_without_a_queue_follow_the_default_queue() -> None:
    queues = (QueueSeen(Queue(name="first")), QueueSeen(Queue(name="second")))
    book = settled(
        PolicySeen(Policy(default_queue="first")), *queues, asks("j", queue=""), asks("named", queue="first")
    )
    assert book.jobs["j"].queue == "first"
    fold(book, [PolicySeen(Policy(default_queue="second"))])
    assert (book.jobs["j"].queue, book.jobs["named"].queue) == ("second", "first")


def test_learned_estimates_are_given_only_where_the_policy_asks_for_them() -> None:
    learned = Policy(backfill_order=BackfillOrder.SHORTEST_LEARNED)
    book = settled(node("a", cpu=8))
    like = replace(asks("default/train-1"), user="ada", limit_s=1000.0)
    fold(book, [RunTold(replace(like, id=f"default/train-{at}"), 100.0) for at in range(20)])
    assert cluster_events.with_learned_estimate(book, like) is like, "this policy orders by nothing learned"
    fold(book, [PolicySeen(learned)])
    fold(book, [RunTold(replace(like, id=f"default/train-{at}"), 100.0) for at in range(20)])
    found = cluster_events.with_learned_estimate(book, like)
    assert found.estimate_s is not None
    assert found.estimate_s < 1000.0
    stated = replace(like, estimate_s=7.0)
    assert cluster_events.with_learned_estimate(book, stated) is stated, "the user's estimate stays"


def test_time_never_goes_back() -> None:
    book = settled()
    fold(book, [Ticked(50.0), Ticked(20.0)])
    assert (book.now_s, book.told_s) == (50.0, 20.0)
    fold(book, [Ticked(60.0)])
    assert book.now_s == 60.0


@pytest.mark.parametrize(
    ("from_s", "to_s", "woken"),
    [(0.0, 99.0, False), (0.0, 100.0, True), (150.0, 250.0, True), (250.0, 120.0, True), (110.0, 190.0, False)],
)
def test_a_boundary_of_a_reservation_wakes_the_jobs_that_ask_for_it(from_s: float, to_s: float, woken: bool) -> None:
    """Also if the clock is set back over it."""
    reserved = Reservation(name="r", start_s=100.0, end_s=200.0, nodes=("a",))
    book = cluster(
        Ticked(from_s), ReservationSeen(reserved), node("a", cpu=4), asks("j", reservation="r"), asks("plain")
    )
    step(book, now_s=from_s)
    assert fresh(book) == set()
    fold(book, [Ticked(to_s)])
    assert fresh(book) == ({"j"} if woken else set())
