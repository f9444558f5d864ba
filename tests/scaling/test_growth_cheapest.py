"""The search for the cheapest nodes, compared with trying everything."""

from __future__ import annotations

from itertools import product
from random import Random

import pytest

from phalanx.scaling.growth import TRIALS, Counts, GrowthSearch, Offer, cheapest


def packs(sizes: tuple[int, ...], counts: Counts, pods: tuple[int, ...]) -> bool:
    """Return whether pods of these sizes fit on `counts` nodes of each size: an exact search, for few pods."""
    nodes = [size for size, count in zip(sizes, counts, strict=True) for _ in range(count)]

    def fill(at: int, left: tuple[int, ...]) -> bool:
        if at == len(pods):
            return True
        tried = set()
        for index, room in enumerate(left):
            if room >= pods[at] and room not in tried:
                tried.add(room)
                if fill(at + 1, (*left[:index], room - pods[at], *left[index + 1 :])):
                    return True
        return False

    return fill(0, tuple(nodes))


@pytest.mark.parametrize("seed", range(40))
def test_small_cases_are_solved_exactly(seed: int) -> None:
    draw = Random(seed)
    groups = draw.randint(1, 3)
    sizes = tuple(draw.choice([1, 2, 3, 5, 8]) for _ in range(groups))
    offers = [Offer(draw.choice([0.5, 1, 2.4, 3, 7, 10]), draw.choice([60, 300]), draw.randint(0, 4)) for _ in sizes]
    pods = tuple(sorted((draw.choice([1, 1, 2, 3, 5]) for _ in range(draw.randint(1, 5))), reverse=True))
    every = [counts for counts in product(*(range(offer.most + 1) for offer in offers)) if packs(sizes, counts, pods)]
    found = cheapest(offers, lambda counts: packs(sizes, counts, pods))
    if not every:
        assert found is None
        return
    price = min(sum(o.price * n for o, n in zip(offers, counts, strict=True)) for counts in every)
    assert found is not None
    assert packs(sizes, found, pods)
    assert sum(o.price * n for o, n in zip(offers, found, strict=True)) == pytest.approx(price)


def test_a_large_search_stays_within_its_budget() -> None:
    offers = [Offer(price, 60.0, 300) for price in (1.0, 1.7, 2.9, 4.1)]
    search = GrowthSearch(offers, lambda counts: sum(n * s for n, s in zip(counts, (1, 2, 4, 8), strict=True)) >= 900)
    search.take_away()
    taken = len(search.known)
    search.try_cheaper((0,) * 4, 0)
    assert search.best is not None
    assert len(search.known) <= max(taken, TRIALS) + 20
    assert search.cost(search.best)[0] == pytest.approx(112 * 4.1 + 2.9)


def test_of_equal_prices_the_sooner_nodes_are_taken() -> None:
    offers = [Offer(1.0, 300.0, 4), Offer(1.0, 60.0, 4)]
    assert cheapest(offers, lambda counts: sum(counts) >= 2) == (0, 2)
