"""`state/pending/headroom.py`: what a queue may still start, and each bound that says so."""

from __future__ import annotations

import pytest

from phalanx.model.queue import BorrowingPolicy, Limits, Queue, Quota
from phalanx.state.pending.headroom import Headroom, HeadroomRow, bounds_of, upward
from phalanx.state.queues.bounds import Rule, amount_left
from phalanx.state.queues.quota import Charge
from phalanx.state.queues.tree import QueueTree

CPU = ("", "cpu")


def quota(guaranteed: int | None = None, limit: int | None = None, lend: int | None = None) -> tuple[Quota, ...]:
    stated = {"guaranteed": guaranteed, "limit": limit, "lend": lend}
    return (Quota(**{name: (("cpu", amount),) for name, amount in stated.items() if amount is not None}),)


def tree_of(*queues: Queue, pool: int = 100) -> QueueTree:
    tree = QueueTree()
    tree.build({queue.name: queue for queue in queues}, {})
    tree.pool = {CPU: pool}
    return tree


def headroom(tree: QueueTree, row: HeadroomRow) -> float:
    found = Headroom()
    found.build(tree)
    number = found.row(row)
    column = float(found.of_rows()[found.key("cpu"), number])
    for cost in (column, column + 1):  # `allows` is the same rule for one row
        costs = [0.0] * len(found.keys)
        costs[found.key("cpu")] = cost
        assert found.allows(number, costs) is (cost <= column)
    return column


def charge(queue: str, cpu: int, user: str = "ann", job: str = "j") -> Charge:
    return Charge(queue, user, "", ((CPU, cpu),), 1, job, True)


def test_the_least_bound_of_the_path_counts() -> None:
    tree = tree_of(Queue(name="up", quotas=quota(limit=10)), Queue(name="q", parent="up", quotas=quota(limit=8)))
    assert headroom(tree, HeadroomRow("q")) == 8
    tree.charge(charge("up", 5), 1)
    assert headroom(tree, HeadroomRow("q")) == 5
    tree.charge(charge("q", 5), 1)
    assert headroom(tree, HeadroomRow("q")) == 0


def test_an_excess_is_no_headroom() -> None:
    tree = tree_of(Queue(name="q", quotas=quota(limit=8)))
    tree.charge(charge("q", 20), 1)
    assert headroom(tree, HeadroomRow("q")) == 0


def test_a_queue_that_may_not_borrow_has_its_guarantee() -> None:
    queue = Queue(name="q", quotas=quota(guaranteed=6), borrow=BorrowingPolicy.PREEMPTIBLE)
    for preemptible, rules in ((True, []), (False, [Rule.GUARANTEE])):
        row = HeadroomRow("q", preemptible=preemptible)
        assert [bound.rule for bound in bounds_of(tree_of(queue).branch("q"), row)] == rules
    assert headroom(tree_of(queue), HeadroomRow("q", preemptible=False)) == 6


def test_what_a_queue_keeps_is_no_part_of_the_pool() -> None:
    """The pool has 10 cpus, of which `a` keeps 4: `b` may start 6, and `a` all of its 4 though the pool is used up."""
    tree = tree_of(Queue(name="a", quotas=quota(guaranteed=4, lend=0)), Queue(name="b", quotas=quota(0)), pool=10)
    assert headroom(tree, HeadroomRow("b")) == 6
    tree.charge(charge("b", 6), 1)
    assert headroom(tree, HeadroomRow("b")) == 0
    assert headroom(tree, HeadroomRow("a")) == 4


@pytest.mark.parametrize(("user", "left"), [("ann", 1.0), ("bob", 4.0), ("eve", 9.0)])
def test_each_user_has_a_bound(user: str, left: float) -> None:
    named = (("eve", Limits(resources=(("cpu", 9),))),)
    tree = tree_of(Queue(name="q", per_user=Limits(resources=(("cpu", 4),), named=named)))
    tree.charge(charge("q", 3), 1)
    assert headroom(tree, HeadroomRow("q", user=user)) == left


def test_charges_of_a_cycle_only_lower_what_is_left() -> None:
    tree = tree_of(Queue(name="q", quotas=quota(limit=8)))
    found = Headroom()
    found.build(tree)
    number, key = found.row(HeadroomRow("q")), found.key("cpu")
    for sign, left in ((1, 3), (-1, 3)):
        tree.charge(charge("q", 5), sign)
        found.charged(charge("q", 5), lambda branch: branch.account)
        assert found.of_rows()[key, number] == left
    found.renew(["q"])
    assert found.of_rows()[key, number] == 8


def test_the_number_of_started_jobs_is_a_bound() -> None:
    tree = tree_of(Queue(name="q", total=Limits(running=2)))
    (bound,) = bounds_of(tree.branch("q"), HeadroomRow("q"))
    assert (bound.rule, amount_left(tree.branch("q"), tree.branch("q").account, bound, {})) == (Rule.RUNNING, 2)
    tree.charge(charge("q", 1), 1)
    assert amount_left(tree.branch("q"), tree.branch("q").account, bound, {}) == 1


@pytest.mark.parametrize("amount", [0, 7, 2**53 + 1, 2**62 + 3])
def test_a_float_is_never_below_its_amount(amount: int) -> None:
    assert upward(amount) >= amount
