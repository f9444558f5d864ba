"""The queue tree: the amount that may be taken is that of KEP-79 from the top down; charges go from the bottom up."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from phalanx.core.fold.fold import fold
from phalanx.core.quota.flavor_assignment import QuotaLedger
from phalanx.core.quota.ledger import pool_shortfall
from phalanx.model.event import Finished, QueueGone, QueueSeen
from phalanx.model.job import Placement
from phalanx.model.plan import Start
from phalanx.model.queue import Limits, Queue, Quota
from phalanx.state.queues.branch import Branch
from phalanx.state.queues.quota import Charge
from phalanx.state.queues.tree import QueueTree
from tests.core.builders import cluster, event, job, node, role
from tests.invariants import check_invariants

CPU = ("", "cpu")
FEW = st.integers(0, 6)


@st.composite
def forests(draw: st.DrawFn) -> list[Queue]:
    """Up to seven queues, each below one before it or below the root; leaves are guaranteed something."""
    queues = []
    for index in range(draw(st.integers(1, 7))):
        parent = draw(st.sampled_from(["", *(queue.name for queue in queues)]))
        lend = (("cpu", draw(FEW)),) if draw(st.booleans()) else ()
        queues.append(
            Queue(name=f"q{index}", parent=parent, quotas=(Quota(guaranteed=(("cpu", draw(FEW)),), lend=lend),))
        )
    inner = {queue.parent for queue in queues}
    return [replace(q, quotas=(Quota(lend=q.quotas[0].lend),)) if q.name in inner else q for q in queues]


def built(queues: list[Queue], pool: int) -> QueueTree:
    tree = QueueTree()
    tree.build({queue.name: queue for queue in queues}, ())
    tree.pool = {CPU: pool}
    return tree


def claim(branch: Branch, used: dict[str, int]) -> int:
    """From scratch: the definition in `state.queues.tree`."""
    below = used.get(branch.name, 0) + sum(claim(child, used) for child in branch.children.values())
    return max(branch.quota.kept.get(CPU, 0), below)


def available(tree: QueueTree, branch: Branch, used: dict[str, int]) -> int:
    """KEP-79, from the top down: what is kept for the queue and not in use, and what its parent sees."""
    if branch.parent is None:
        return tree.pool[CPU] - used.get("", 0) - sum(claim(child, used) for child in branch.children.values())
    below = used.get(branch.name, 0) + sum(claim(child, used) for child in branch.children.values())
    return max(0, branch.quota.kept.get(CPU, 0) - below) + max(0, available(tree, branch.parent, used))


@given(
    forests(),
    st.integers(0, 20),
    st.lists(st.tuples(st.integers(0, 6), FEW), max_size=8),
    st.tuples(st.integers(0, 6), FEW),
)
def test_what_may_be_taken_is_what_is_available(queues, pool: int, charges, asked) -> None:
    tree, used = built(queues, pool), {}
    for index, amount in charges:
        name = queues[index % len(queues)].name
        tree.charge(Charge(name, "", "", ((CPU, amount),)), 1)
        used[name] = used.get(name, 0) + amount
    for branch in tree.branches.values():
        below = used.get(branch.name, 0) + sum(claim(child, used) for child in branch.children.values())
        assert branch.account.claimed.get(CPU, 0) == (below if tree.keeps else 0)
    branch, wanted = tree.branches[queues[asked[0] % len(queues)].name], asked[1]
    if tree.keeps and wanted:
        allowed = pool_shortfall(QuotaLedger(tree), branch, ((CPU, wanted),)) is None
        assert allowed is (wanted <= available(tree, branch, used))


@given(forests(), st.lists(st.tuples(st.integers(0, 6), FEW), min_size=1, max_size=8), st.data())
def test_giving_back_leaves_nothing(queues, charges, data: st.DataObject) -> None:
    tree, fresh = built(queues, 20), built(queues, 20)
    listed = [Charge(queues[index % len(queues)].name, "u", "g", ((CPU, amount),)) for index, amount in charges]
    for charge in listed:
        tree.charge(charge, 1)
    for charge in data.draw(st.permutations(listed)):
        tree.charge(charge, -1)
    assert all(tree.branches[name].account.shown() == fresh.branches[name].account.shown() for name in tree.branches)


def test_a_ledger_rewinds_to_what_the_book_says() -> None:
    tree = built(
        [Queue(name="q", per_user=Limits(running=3), quotas=(Quota(guaranteed=(("cpu", 4),), lend=(("cpu", 1),)),))], 9
    )
    ledger, branch = QuotaLedger(tree), tree.branches["q"]
    mark = ledger.mark()
    ledger.charge(Charge("q", "ann", "", ((CPU, 5),)))
    assert ledger.account(branch).users["ann"].running == 1
    ledger.rewind(mark)
    assert ledger.account(branch).shown() == branch.account.shown()


CHARGES = st.lists(st.tuples(st.integers(0, 6), FEW, st.sampled_from([1, -1])), max_size=8)


@given(forests(), CHARGES, CHARGES, st.booleans())
def test_a_ledger_is_after_a_rewind_as_if_the_rest_had_never_been(queues, before, after, looked: bool) -> None:
    tree = built(queues, 20)
    rewound, plain = QuotaLedger(tree), QuotaLedger(tree)
    for ledger, made in ((rewound, before), (plain, before)):
        for index, amount, sign in made:
            ledger.charge(Charge(queues[index % len(queues)].name, "u", "g", ((CPU, amount),)), sign)
    mark = rewound.mark()
    for index, amount, sign in after:
        rewound.charge(Charge(queues[index % len(queues)].name, "v", "g", ((CPU, amount),)), sign)
        if looked:
            for branch in tree.branches.values():
                rewound.share(branch)
    rewound.rewind(mark)
    for branch in tree.branches.values():
        assert rewound.account(branch).shown() == plain.account(branch).shown()
        assert rewound.share(branch) == plain.share(branch)


def test_the_book_stays_exact_when_queues_change_under_load() -> None:
    book = cluster(node("a", cpu=9), QueueSeen(Queue(name="up")), QueueSeen(Queue(name="q", parent="up")))
    fold(book, [event(job(f"j{n}", role("w", 1, cpu=2), queue="q")) for n in range(3)])
    for number in range(3):
        fold(book, [Start(f"j{number}", 1, (Placement(0, 0, "a"),))])
    assert book.tree.branches["up"].account.total[CPU] == 6
    for queue in (
        Queue(name="q", parent="gone"),
        Queue(name="q", parent="q"),
        Queue(name="q", quotas=(Quota(limit=(("cpu", 1),)),)),
    ):
        fold(book, [QueueSeen(queue)])
        check_invariants(book)
        assert book.tree.branches["q"].account.total[CPU] == 6
    fold(book, [QueueGone("q"), QueueGone("up"), Finished("j0")])
    check_invariants(book)
    assert book.tree.root.account.total[CPU] == 4


def test_a_deep_tree_is_no_deeper_than_the_stack() -> None:
    queues = [Queue(name=f"q{n}", parent=f"q{n - 1}" if n else "") for n in range(2000)]
    tree = built(queues[::-1], 9)
    tree.charge(Charge("q1999", "", "", ((CPU, 1),)), 1)
    assert tree.branches["q0"].account.total[CPU] == 1
