"""How a Deployment moves from one template to the next."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as some

from phalanx.embedded.controllers.workloads.deployment import Size, bounds, step


def full(count: int) -> Size:
    return Size(wanted=count, pods=count, available=count)


EMPTY = full(0)


@pytest.mark.parametrize(
    ("count", "surge", "unavailable", "expected"),
    [(4, "25%", "25%", (1, 1)), (3, "25%", "25%", (1, 0)), (2, 0, 0, (0, 1)), (10, 2, "30%", (2, 3))],
)
def test_shares_of_pods_are_rounded_so_that_something_moves(
    count: int, surge: int | str, unavailable: int | str, expected: tuple[int, int]
) -> None:
    rolling = {"maxSurge": surge, "maxUnavailable": unavailable}
    assert bounds({"replicas": count, "strategy": {"rollingUpdate": rolling}}) == expected


def test_recreation_waits_until_the_old_pods_are_gone() -> None:
    spec = {"replicas": 3, "strategy": {"type": "Recreate"}}
    assert step(spec, EMPTY, [full(3)]) == (0, [0])
    assert step(spec, EMPTY, [Size(wanted=0, pods=1, available=0)]) == (0, [0])
    assert step(spec, EMPTY, [EMPTY]) == (3, [0])


@given(some.integers(0, 20), some.integers(0, 5), some.integers(0, 5))
def test_a_rollout_ends_and_is_never_below_or_above_its_bounds(count: int, surge: int, unavailable: int) -> None:
    rolling = {"maxSurge": surge, "maxUnavailable": unavailable}
    spec = {"replicas": count, "strategy": {"type": "RollingUpdate", "rollingUpdate": rolling}}
    most_more, most_fewer = bounds(spec)
    new, old = 0, count
    for _ in range(2 * count + 2):
        grown, [left] = step(spec, full(new), [full(old)])
        assert grown + left <= count + most_more
        assert min(new, grown) + min(old, left) >= count - most_fewer
        new, old = grown, left
    assert (new, old) == (count, 0)
