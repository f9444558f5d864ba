"""Weighted dominant shares over the queue tree, in numbers that can be followed by hand; and why comparing them cannot
lead in a circle."""

from __future__ import annotations

from collections.abc import Iterator
from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as st

from phalanx.core.quota.shares import NOTHING, DominantShare, dominant_share, own_share
from phalanx.model.queue import Queue, Quota
from phalanx.state.queues.quota import Charge, Cost
from phalanx.state.queues.tree import QueueTree

POOL = {("", "cpu"): 100, ("", "gpu"): 10}


def tree(*queues: Queue, pool: dict[tuple[str, str], int] = POOL) -> QueueTree:
    grown = QueueTree()
    grown.build({queue.name: queue for queue in queues}, ("spot",))
    grown.pool = dict(pool)
    return grown


def queue(name: str, parent: str = "", weight: float = 1.0, *, gpus_weigh: float | None = None, **own: int) -> Queue:
    quota = Quota(guaranteed=tuple(sorted(own.items())))
    return Queue(
        name=name,
        parent=parent,
        weight=weight,
        weights=() if gpus_weigh is None else (("gpu", gpus_weigh),),
        quotas=(quota,) if own else (),
    )


def cost(flavor: str = "", /, **amounts: int) -> Cost:
    return tuple(((flavor, resource), amount) for resource, amount in amounts.items())


def use(grown: QueueTree, name: str, flavor: str = "", /, **amounts: int) -> None:
    grown.charge(Charge(name, "", "", cost(flavor, **amounts)), 1)


def share(grown: QueueTree, name: str, /, **extra: int) -> DominantShare:
    branch = grown.branch(name)
    return dominant_share(branch, branch.account, grown.pool, cost("", **extra))


def test_without_guarantees_it_is_the_dominant_share() -> None:
    """Ghodsi et al., NSDI'11: of 100 cpus and 10 gpus, 20 cpus are a fifth and 4 gpus are two fifths."""
    grown = tree(queue("a"))
    use(grown, "a", cpu=20, gpu=4)
    assert share(grown, "a") == (0, 0.4)
    assert share(grown, "a", cpu=40) == (0, 0.6)


def test_only_what_is_beyond_the_guarantee_counts() -> None:
    grown = tree(queue("a", cpu=30), queue("b"))
    use(grown, "a", cpu=30)
    assert share(grown, "a") == NOTHING
    assert share(grown, "a", cpu=5) == (0, 0.05)


def test_a_share_is_divided_by_the_weight_also_per_resource() -> None:
    grown = tree(queue("a", weight=2), queue("b", weight=2, gpus_weigh=4))
    for name in ("a", "b"):
        use(grown, name, cpu=10, gpu=8)
    assert share(grown, "a") == (0, 0.4)
    assert share(grown, "b") == (0, 0.2)


def test_weight_zero_that_borrows_comes_after_all_that_weigh() -> None:
    grown = tree(queue("a", weight=0, cpu=10), queue("b", weight=0.001))
    use(grown, "a", cpu=10)
    use(grown, "b", cpu=90)
    assert share(grown, "a") == NOTHING
    assert share(grown, "a", cpu=1) > share(grown, "b")


def test_a_parent_that_states_its_guarantee_shares_out_that() -> None:
    grown = tree(queue("p", cpu=40), queue("x", "p"), queue("q"), queue("y", "q", cpu=20))
    use(grown, "x", cpu=10)
    use(grown, "y", cpu=30)
    assert share(grown, "x") == (0, 10 / 40)
    assert share(grown, "y") == (0, 10 / 100)  # q states nothing: what the cluster has
    assert share(grown, "p") == NOTHING
    assert share(grown, "q") == (0, 10 / 100)  # its guarantee is its child's


def test_what_nobody_has_is_an_infinite_share_of_it() -> None:
    grown = tree(queue("a"))
    assert share(grown, "a", npu=1) == (0, inf)
    assert share(grown, "") == NOTHING


def test_of_several_flavors_the_dominant_one_counts() -> None:
    grown = tree(queue("a"), pool={**POOL, ("spot", "cpu"): 20})
    use(grown, "a", cpu=10)
    use(grown, "a", "spot", cpu=10)
    assert share(grown, "a") == (0, 0.5)


def test_own_jobs_of_an_inner_queue_are_guaranteed_nothing() -> None:
    grown = tree(queue("p", cpu=40), queue("x", "p", cpu=20))
    assert own_share(grown.branch("p"), dict(cost(cpu=10)), grown.pool, cost(cpu=10)) == (0, 0.5)


def test_two_queues_are_compared_below_their_lowest_common_ancestor() -> None:
    grown = tree(queue("p"), queue("x", "p"), queue("y", "p"), queue("z"), queue("w", "x"))

    def sides(one: str, other: str) -> tuple[str | None, str | None]:
        tie = grown.branch(one).relation_to(grown.branch(other))
        return tie.ours and tie.ours.name, tie.theirs and tie.theirs.name

    assert sides("w", "y") == ("x", "y")
    assert sides("w", "z") == ("p", "z")
    assert sides("w", "p") == ("x", None)
    assert sides("p", "w") == (None, "x")
    assert sides("x", "x") == (None, None)


@st.composite
def trees(draw: st.DrawFn) -> QueueTree:
    """At most four levels; weights among them 0, guarantees, some of them stated by parents."""
    queues: list[Queue] = []
    depth = {"": 0}
    for number in range(draw(st.integers(2, 9))):
        parent = draw(st.sampled_from([name for name, at in depth.items() if at < 4]))
        name = f"q{number}"
        depth[name] = depth[parent] + 1
        own = {resource: draw(st.integers(0, 20)) for resource in ("cpu", "gpu") if draw(st.booleans())}
        queues.append(queue(name, parent, draw(st.sampled_from([0.0, 0.3, 1.0, 1.0, 2.0, 7.0])), **own))
    return tree(*queues)


JOBS: st.SearchStrategy[dict[str, int]] = st.builds(dict, cpu=st.integers(1, 30), gpu=st.integers(0, 5))


@pytest.mark.slow
@given(trees(), st.data())
def test_what_is_taken_cannot_be_taken_back(grown: QueueTree, data: st.DataObject) -> None:
    leaves = sorted(name for name, branch in grown.branches.items() if name and not branch.children)
    some = st.sampled_from(leaves)
    victim, held, taker, asked = data.draw(some), data.draw(JOBS), data.draw(some), data.draw(JOBS)
    for name, amounts in data.draw(st.lists(st.tuples(some, JOBS), max_size=6)):
        use(grown, name, **amounts)
    use(grown, victim, **held)
    tie = grown.branch(taker).relation_to(grown.branch(victim))
    if tie.ours is None or tie.theirs is None:
        return
    ours, theirs = tie.ours.name, tie.theirs.name
    before = share(grown, theirs)
    if not share(grown, ours, **asked) < before:
        return
    use(grown, victim, **{resource: -amount for resource, amount in held.items()})
    use(grown, taker, **asked)
    assert share(grown, ours) < before
    assert not share(grown, theirs, **held) < share(grown, ours)


@pytest.mark.slow
@given(st.lists(st.sampled_from([0.0, 0.3, 1.0, 1.0, 2.0, 7.0]), min_size=2, max_size=5), st.data())
def test_among_siblings_no_sequence_of_preemptions_leads_back(weights: list[float], data: st.DataObject) -> None:
    """A preempting queue stays below the highest share of any queue that lost jobs. So the queue with that share cannot
    return to it by preemption, and the set of running jobs never repeats."""
    grown = tree(*(queue(f"q{number}", weight=weight) for number, weight in enumerate(weights)))
    owners = st.integers(0, len(weights) - 1)
    jobs = data.draw(st.lists(st.tuples(owners, JOBS), min_size=4, max_size=12))
    runs = {number for number in range(len(jobs)) if data.draw(st.booleans())}
    for number in runs:
        use(grown, f"q{jobs[number][0]}", **jobs[number][1])
    seen = {frozenset(runs)}
    while may := sorted(takers(grown, jobs, runs)):
        number, other = data.draw(st.sampled_from(may))
        (taker, asked), (victim, held) = jobs[number], jobs[other]
        use(grown, f"q{victim}", **{resource: -amount for resource, amount in held.items()})
        use(grown, f"q{taker}", **asked)
        runs = runs - {other} | {number}
        assert frozenset(runs) not in seen
        seen.add(frozenset(runs))


def takers(grown: QueueTree, jobs: list[tuple[int, dict[str, int]]], runs: set[int]) -> Iterator[tuple[int, int]]:
    """Yield (pending job, running job) pairs in which the first may preempt the second."""
    has = {other: share(grown, f"q{jobs[other][0]}") for other in runs}
    for number in set(range(len(jobs))) - runs:
        taker, asked = jobs[number]
        would_have = share(grown, f"q{taker}", **asked)
        yield from ((number, other) for other in runs if jobs[other][0] != taker and would_have < has[other])
