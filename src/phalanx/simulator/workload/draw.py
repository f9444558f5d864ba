"""Distributions, drawn by inversion from `random.Random.random()`, whose numbers are the same in every Python version.

Times are rounded to milliseconds, so that rounding errors of a machine's logarithm have no effect."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from math import cos, exp, log, pi
from random import Random
from statistics import NormalDist
from typing import TypeAlias

DAY_S = 86_400.0
_NORMAL = NormalDist()


@dataclass(frozen=True, slots=True, kw_only=True)
class Exponential:
    mean: float


@dataclass(frozen=True, slots=True, kw_only=True)
class LogNormal:
    """A log-normal distribution. `sigma`: the standard deviation of the logarithm."""

    median: float
    sigma: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Uniform:
    low: float
    high: float


@dataclass(frozen=True, slots=True, kw_only=True)
class LogUniform:
    """A distribution that is uniform in the logarithm, as sizes and run times of logs roughly are. `low`: above 0."""

    low: float
    high: float


@dataclass(frozen=True, slots=True, kw_only=True)
class DrawChoice:
    """A choice among values. `values`: (value, weight)."""

    values: tuple[tuple[float, float], ...]


ONE = DrawChoice(values=((1.0, 1.0),))
AN_HOUR = Exponential(mean=3600.0)

Distribution: TypeAlias = Exponential | LogNormal | Uniform | LogUniform | DrawChoice


def draw(distribution: Distribution, random: Random) -> float:
    chance = random.random()
    match distribution:
        case Exponential(mean=mean):
            return round(-mean * log(1.0 - chance), 3)
        case LogNormal(median=median, sigma=sigma):
            return round(median * exp(sigma * _NORMAL.inv_cdf(min(max(chance, 1e-12), 1 - 1e-12))), 3)
        case Uniform(low=low, high=high):
            return round(low + (high - low) * chance, 3)
        case LogUniform(low=low, high=high):
            return round(low * exp(log(high / low) * chance), 3)
        case DrawChoice(values=values):
            return values[pick([weight for _, weight in values], chance)][0]


def pick(weights: Sequence[float], chance: float) -> int:
    """Return the index that a random number `chance` in [0, 1) selects, with probabilities in proportion to
    `weights`."""
    sums = list(accumulate(weights))
    return min(bisect_right(sums, chance * sums[-1]), len(weights) - 1)


def next_arrival_s(at_s: float, mean_s: float, swing: float, peak_s: float, random: Random) -> float:
    """Return the time of the next arrival after `at_s` in a Poisson process with a daily cycle, by thinning (Lewis and
    Shedler 1979).

    `mean_s`: the mean time between arrivals. `swing`: how much the rate varies over the day (0: constant; 1: no arrival
    at the quietest time). `peak_s`: the time of day with the highest rate."""
    while True:
        at_s = round(at_s - mean_s / (1.0 + swing) * log(1.0 - random.random()), 3)
        rate = (1.0 + swing * cos(2.0 * pi * (at_s - peak_s) / DAY_S)) / (1.0 + swing)
        if not swing or random.random() < rate:
            return at_s
