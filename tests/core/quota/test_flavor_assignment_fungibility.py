"""The order in which one resource group prefers its flavors: a table of Kueue's flavorFungibility."""

from __future__ import annotations

import pytest

from phalanx.core.quota.flavor_assignment import FlavorMode, preferred_order
from phalanx.model.queue import FlavorFungibility

FITS, BORROWS, SHORT = FlavorMode.FITS, FlavorMode.BORROWS, FlavorMode.SHORT
NEXT = FlavorFungibility(borrow_before_next=False)
PREEMPT = FlavorFungibility(preempt_before_next=True)
PREFER_PREEMPTION = FlavorFungibility(borrow_before_next=False, prefer_preemption=True)

CASES = [
    # a flavor that fits ends the search; by default, a flavor that borrows ends it as well
    (FlavorFungibility(), (SHORT, BORROWS, FITS), [1, 2, 0], 1),
    (NEXT, (SHORT, BORROWS, FITS), [2, 1, 0], 1),
    # no flavor ends the search early: the best flavor of all comes first
    (NEXT, (SHORT, BORROWS, BORROWS), [1, 2, 0], 1),
    (PREFER_PREEMPTION, (BORROWS, SHORT, BORROWS), [1, 0, 2], 1),
    (FlavorFungibility(), (SHORT, SHORT), [0, 1], 1),
    # a full flavor comes first; the search goes on, because no job in this flavor may be preemptible
    (PREEMPT, (SHORT, BORROWS, FITS), [0, 1, 2], 2),
    (PREEMPT, (SHORT, SHORT), [0, 1], 2),
]


@pytest.mark.parametrize(("wish", "modes", "order", "leading"), CASES, ids=str)
def test_order_of_flavors(
    wish: FlavorFungibility, modes: tuple[FlavorMode, ...], order: list[int], leading: int
) -> None:
    assert preferred_order(modes, wish) == (order, leading)
