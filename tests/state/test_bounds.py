"""`state/queues/bounds.py`: the amount that each kind of bound still admits."""

from __future__ import annotations

import pytest

from phalanx.model.queue import Limits, Queue, Quota
from phalanx.state.queues.bounds import Bound, Rule, amount_left
from phalanx.state.queues.branch import ROOT
from phalanx.state.queues.quota import Charge
from phalanx.state.queues.tree import QueueTree

CPU = ("", "cpu")


def limits(running: int, cpu: int) -> Limits:
    return Limits(running=running, resources=(("cpu", cpu),))


QUEUE = Queue(
    name="q",
    quotas=(Quota(guaranteed=(("cpu", 20),), limit=(("cpu", 40),), lend=(("cpu", 8),)),),
    total=Limits(running=9),
    per_user=limits(3, 15),
    per_group=limits(5, 17),
    per_job=Limits(resources=(("cpu", 6),)),
)


@pytest.mark.parametrize(
    ("bound", "left"),
    [
        (Bound("q", Rule.LIMIT, CPU), 36),
        (Bound("q", Rule.GUARANTEE, CPU), 16),
        (Bound("q", Rule.KEEP, CPU), 8),  # the queue lends 8 of its guarantee of 20, and keeps 12
        (Bound(ROOT, Rule.POOL, CPU), 88),  # the kept 12 count as used
        (Bound("q", Rule.RUNNING), 8),
        (Bound("q", Rule.USER, CPU, "ann"), 11),
        (Bound("q", Rule.USER, CPU, "bob"), 15),
        (Bound("q", Rule.USER_RUNNING, whose="ann"), 2),
        (Bound("q", Rule.GROUP, CPU, "g"), 13),
        (Bound("q", Rule.GROUP_RUNNING, whose="g"), 4),
        (Bound("q", Rule.JOB, CPU, "j"), 2),
        (Bound("q", Rule.JOB, CPU, "other"), 6),
    ],
    ids=lambda each: f"{each.rule} {each.whose}".strip() if isinstance(each, Bound) else None,
)
def test_a_bound_admits_what_it_allows_less_what_is_charged(bound: Bound, left: int) -> None:
    tree = QueueTree()
    tree.build({"q": QUEUE}, {})
    tree.charge(Charge("q", "ann", "g", ((CPU, 4),), 1, "j", True), 1)
    branch = tree.branch(bound.queue)
    assert amount_left(branch, branch.account, bound, {CPU: 100}) == left
