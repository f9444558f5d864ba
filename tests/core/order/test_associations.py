"""`core/order/associations.py`: the tree of associations from queues and from jobs that ran."""

from __future__ import annotations

from datetime import datetime

import pytest

from phalanx.core.fold.fold import fold
from phalanx.core.order.associations import fair_shares
from phalanx.fair_tree import PARENT
from phalanx.model.event import Finished, NodeSeen, PolicySeen, QueueSeen, Submitted, Ticked, UsageTold
from phalanx.model.job import Job, Placement
from phalanx.model.plan import Start
from phalanx.model.policy import FairShareFormula, Policy
from phalanx.model.queue import Queue
from phalanx.state.cluster import Cluster
from tests.core.builders import node, role
from tests.test_fair_tree import SLURM, rows

# The nested tree as queues. The root's own user has, as an account would, a queue of its own.
ACCOUNTS = (
    Queue(name="root", weight=1, accounts=(("root", 1),)),
    Queue(name="a", weight=40, accounts=(("a1", 1), ("a2", 3))),
    Queue(name="b", weight=60, accounts=(("b1", 1), ("b2", 1))),
    Queue(name="c", weight=20, accounts=(("c3", 4),)),
    Queue(name="c1", parent="c", weight=2, accounts=(("c1", 5),)),
    Queue(name="c2", parent="c", weight=2, accounts=(("c2", 1),)),
    Queue(name="d", weight=30, accounts=(("d1", PARENT), ("d2", PARENT))),
    Queue(name="e", weight=0, accounts=(("e1", 1),)),
)
POLICY = Policy(billing=(("cpu", 0.001),))  # one unit for each cpu


def seconds(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()


def test_the_jobs_that_ran_give_the_book_what_slurm_printed() -> None:
    """The tie, from the jobs themselves (`sacct`: job, user, start, end, cpus): the same jobs run in our queues."""
    ran = [line.split() for line in (SLURM / "sshare_fairtree_4_exacttie_jobs.txt").read_text().splitlines()]
    ((begun_s, ended_s),) = {(seconds(started), seconds(ended)) for _, _, started, ended, _ in ran}
    book = Cluster()
    fold(book, [PolicySeen(POLICY), *map(QueueSeen, ACCOUNTS), NodeSeen(node("n", cpu=512_000)), Ticked(begun_s)])
    queue_of = {user: queue.name for queue in ACCOUNTS for user, _ in queue.accounts}
    for number, user, _, _, cpus in ran:
        asked = role(cpu=1000 * int(cpus))
        job = Job(id=number, queue=queue_of[user], user=user, submitted_s=begun_s, roles=(asked,))
        fold(book, [Submitted(job), Start(number, 1, (Placement(0, 0, "n"),), begun_s)])
    fold(book, [Ticked(ended_s), *(Finished(number) for number, *_ in ran)])

    now_s = seconds("2026-11-21T02:21:43")  # when sshare was asked
    found = fair_shares(book, POLICY, now_s)
    for row in rows(SLURM / "sshare_fairtree_4_exacttie_cols.txt"):
        account, user = row["Account"], row["User"]
        if user and user != "root":
            assert int(book.usage.of(account, user, now_s)) == int(row["RawUsage"])
        ours = found["" if account == "root" and not user else account, user or None]
        assert row["FairShare"] == ("" if ours.factor is None else f"{ours.factor:.6f}")


@pytest.mark.parametrize(("formula", "factor"), [(FairShareFormula.FAIR_TREE, 1.0), (FairShareFormula.CLASSIC, 0.5)])
def test_the_policy_sets_the_formula(formula: FairShareFormula, factor: float) -> None:
    book = Cluster()
    fold(book, [QueueSeen(Queue(name="q")), UsageTold("q", "ann", 5.0, 0.0)])
    assert fair_shares(book, Policy(fair_share=formula), 0.0)["q", "ann"].factor == factor
