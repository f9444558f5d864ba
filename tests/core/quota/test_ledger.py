"""`core/quota/ledger.py`: charges of a cycle and their undoing, and the first limit that does not allow a charge."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from phalanx.core.quota.ledger import EmptyLedger, QuotaLedger, may_end, missing_amount, shortfall, within_guarantee
from phalanx.model.queue import BorrowingPolicy, Limits, Queue, Quota
from phalanx.state.queues.bounds import Rule
from phalanx.state.queues.quota import Charge
from phalanx.state.queues.tree import QueueTree

CPU = ("", "cpu")


def quota(**bounds: int) -> tuple[Quota, ...]:
    return (Quota(**{name: (("cpu", amount),) for name, amount in bounds.items()}),)


def ledger(*queues: Queue, pool: int = 100) -> QuotaLedger:
    tree = QueueTree()
    tree.build({queue.name: queue for queue in queues}, {})
    tree.pool = {CPU: pool}
    return QuotaLedger(tree)


def charge(queue: str, cpu: int, user: str = "ann", job: str = "j", *, preemptible: bool = True) -> Charge:
    return Charge(queue, user, "", ((CPU, cpu),), 1, job, preemptible)


def first(of: QuotaLedger, asked: Charge) -> tuple[str, Rule, str] | None:
    short = shortfall(of, of.tree.branch(asked.queue), asked)
    return None if short is None else (short.bound.queue, short.bound.rule, short.bound.whose)


def test_the_first_limit_from_the_queue_up_counts() -> None:
    of = ledger(Queue(name="up", quotas=quota(limit=10)), Queue(name="q", parent="up", quotas=quota(limit=8)))
    assert first(of, charge("q", 8)) is None
    assert first(of, charge("q", 9)) == ("q", Rule.LIMIT, "")
    of.grant(charge("up", 5))
    assert first(of, charge("q", 8)) == ("up", Rule.LIMIT, "")
    short = shortfall(of, of.tree.branch("q"), charge("q", 8))
    assert short is not None
    assert (short.asked, short.used, short.allowed, missing_amount(short)) == (8, 5, 10, 3)


def test_users_and_jobs_have_limits_of_their_own() -> None:
    queue = Queue(name="q", per_user=Limits(running=1), per_job=Limits(resources=(("cpu", 4),)))
    of = ledger(queue)
    assert first(of, charge("q", 5)) == ("q", Rule.JOB, "j")
    of.grant(charge("q", 3))
    assert first(of, charge("q", 1, job="k")) == ("q", Rule.USER_RUNNING, "ann")
    assert first(of, charge("q", 1, user="bob", job="k")) is None


def test_who_may_not_borrow_stays_within_the_guarantee() -> None:
    of = ledger(Queue(name="q", quotas=quota(guaranteed=4), borrow=BorrowingPolicy.PREEMPTIBLE))
    assert first(of, charge("q", 5)) is None
    assert first(of, charge("q", 5, preemptible=False)) == ("q", Rule.GUARANTEE, "")
    branch = of.tree.branch("q")
    assert within_guarantee(of, branch, {CPU}, ((CPU, 4),))
    assert not within_guarantee(of, branch, {CPU}, ((CPU, 5),))
    assert within_guarantee(of, branch, set(), ((CPU, 5),))


def test_what_other_queues_keep_cannot_be_borrowed() -> None:
    of = ledger(Queue(name="a", quotas=quota(guaranteed=6, lend=2)), Queue(name="b"), pool=10)
    assert first(of, charge("b", 6)) is None
    assert first(of, charge("b", 7)) == ("", Rule.POOL, "")
    assert first(of, charge("a", 10)) is None, "its own keep is no obstacle"


def test_victims_return_amounts_but_no_count_of_jobs() -> None:
    of = ledger(Queue(name="q", quotas=quota(limit=8), total=Limits(running=9)))
    limit, running = (shortfall(of, of.tree.branch("q"), each) for each in (charge("q", 9), charge("q", 1)))
    assert limit is not None
    assert may_end(of.tree, limit.bound)
    assert not may_end(of.tree, limit.bound._replace(rule=Rule.RUNNING))
    assert running is None


def test_an_empty_cluster_charges_only_what_queues_keep() -> None:
    of = ledger(Queue(name="a", quotas=quota(guaranteed=6, lend=0)), Queue(name="b", quotas=quota(limit=8)), pool=10)
    of.tree.charge(charge("b", 8), 1)
    assert first(of, charge("b", 1)) == ("b", Rule.LIMIT, "")
    empty = EmptyLedger(of.tree)
    assert first(empty, charge("b", 4)) is None
    assert first(empty, charge("b", 5)) == ("", Rule.POOL, "")


@given(st.lists(st.tuples(st.sampled_from("ab"), st.integers(1, 5), st.booleans()), max_size=12), st.data())
def test_a_rewind_is_as_if_nothing_had_been_charged(steps: list[tuple[str, int, bool]], data: st.DataObject) -> None:
    """The usage is read now and then, because a ledger adds charges only when it is read."""
    queues = (Queue(name="up"), Queue(name="a", parent="up", quotas=quota(guaranteed=3, lend=1)), Queue(name="b"))
    of, mark, at = ledger(*queues), 0, data.draw(st.integers(0, len(steps)))
    kept: list[Charge] = []
    for number, (queue, cpu, reads) in enumerate(steps):
        if number == at:
            mark = of.mark()
        of.charge(charge(queue, cpu, job=f"j{number}"))
        if number < at:
            kept.append(charge(queue, cpu, job=f"j{number}"))
        if reads:
            of.account(of.tree.root)
    if at == len(steps):
        mark = of.mark()
    assert len(of.since(mark)) == len(steps) - at
    copy = of.copy_at(mark)
    of.rewind(mark)
    fresh = ledger(*queues)
    for each in kept:
        fresh.charge(each)
    for name in ("", "up", "a", "b"):
        for other in (of, copy):
            branch = other.tree.branches[name]
            same = fresh.account(fresh.tree.branches[name])
            found = other.account(branch)
            assert {key: used for key, used in found.total.items() if used} == dict(same.total)
            assert {key: used for key, used in found.claimed.items() if used} == dict(same.claimed)
            assert found.running == same.running
