"""`core/backfill/pod_division.py`: pods of a job beside the first reservation, compared with trying every division."""

from __future__ import annotations

from itertools import product

from hypothesis import given
from hypothesis import strategies as st

from phalanx.core.backfill.pod_division import divided, knapsack
from phalanx.core.backfill.shadow_time import free_by_row
from phalanx.core.placement.draft import Draft
from tests.core.builders import cluster, node, role

NODES = st.lists(st.lists(st.integers(0, 3), min_size=1, max_size=4), max_size=4)


def best(fits: list[list[int]], pods: int) -> int | None:
    """Return the most pods of the reservation beside `pods` pods; None if the nodes do not hold them."""
    ways = product(*(range(len(node)) for node in fits))
    return max(
        (sum(node[count] for node, count in zip(fits, way, strict=True)) for way in ways if sum(way) == pods),
        default=None,
    )


@given(NODES, st.integers(0, 6), st.integers(0, 8))
def test_there_is_a_division_exactly_if_one_leaves_enough(fits: list[list[int]], pods: int, wanted: int) -> None:
    found, most = knapsack(fits, pods, wanted), best(fits, pods)
    if most is None or most < wanted or not fits:
        assert found == []
        return
    assert sum(found) == pods
    assert sum(node[count] for node, count in zip(fits, found, strict=True)) >= wanted


def test_pods_go_where_the_reservation_does_not_fit_anyway() -> None:
    """The reservation needs two whole nodes of 4 cpus; three pods of 1 cpu go to the third node, and none is split."""
    book = cluster(*(node(name, cpu=4) for name in "abc"))
    gang = book.interned.gang((role(count=3, cpu=1),))
    first = book.interned.gang((role(count=2, cpu=4),))
    draft = Draft(book.columns)
    ((_, position, pods),) = divided(draft, gang, free_by_row(draft), first)
    assert pods == 3
    assert 0 <= position < 3
    assert divided(draft, book.interned.gang((role(count=5, cpu=1),)), free_by_row(draft), first) == []


def test_no_answer_for_gangs_that_counting_does_not_decide() -> None:
    book = cluster(node("a", cpu=4))
    draft, plain = Draft(book.columns), book.interned.gang((role(cpu=1),))
    two_roles = book.interned.gang((role("a", cpu=1), role("b", cpu=1)))
    assert divided(draft, two_roles, free_by_row(draft), plain) == []
    assert divided(draft, plain, free_by_row(draft), plain) != []
