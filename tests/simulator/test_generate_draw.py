"""`simulator/generate.py`: distributions, drawn by inversion from `random.Random.random()`."""

from __future__ import annotations

from random import Random
from statistics import median

import pytest

from phalanx.simulator.generate import (
    AN_HOUR,
    DrawChoice,
    LogNormal,
    LogUniform,
    Recipe,
    Uniform,
    draw,
    generated,
)


@pytest.mark.parametrize(
    ("distribution", "middle"),
    [
        (AN_HOUR, 3600 * 0.693),
        (LogNormal(median=100, sigma=1.5), 100),
        (Uniform(low=10, high=20), 15),
        (LogUniform(low=1, high=100), 10),
        (DrawChoice(values=((1.0, 1.0), (8.0, 3.0))), 8),
    ],
)
def test_medians_of_distributions(distribution: object, middle: float) -> None:
    random = Random("a seed")
    assert median(draw(distribution, random) for _ in range(4000)) == pytest.approx(middle, rel=0.1)


def test_the_same_seed_makes_the_same_workload_forever() -> None:
    recipe = Recipe(
        jobs=3, every_s=10, swing=0.5, run_s=LogNormal(median=60, sigma=1), users=3, limit_factor=Uniform(low=1, high=3)
    )
    found = [(each.job.submitted_s, each.run_s, each.job.limit_s, each.job.user) for each in generated(recipe, 42)]
    assert found == [
        (33.049, 42.62, 61.927, "user-0"),
        (47.493, 41.265, 51.581, "user-0"),
        (73.254, 129.355, 338.522, "user-1"),
    ]
