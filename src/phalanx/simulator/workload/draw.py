"""Distributions, drawn by inversion from `random.Random.random()`, whose numbers are the same in every Python version.

Times are rounded to milliseconds, so that the last bits of a machine's logarithm decide nothing."""

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
    """`sigma`: standard deviation of the logarithm."""

    median: float
    sigma: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Uniform:
    low: float
    high: float


@dataclass(frozen=True, slots=True, kw_only=True)
class LogUniform:
    """Uniform in the logarithm, as sizes and run times of logs roughly are; `low` above 0."""

    low: float
    high: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """Values with their weights."""

    values: tuple[tuple[float, float], ...]


ONE = Choice(values=((1.0, 1.0),))
AN_HOUR = Exponential(mean=3600.0)

Distribution: TypeAlias = Exponential | LogNormal | Uniform | LogUniform | Choice


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
        case Choice(values=values):
            return values[pick([weight for _, weight in values], chance)][0]


def pick(weights: Sequence[float], chance: float) -> int:
    """The index that a chance in [0, 1) falls on."""
    sums = list(accumulate(weights))
    return min(bisect_right(sums, chance * sums[-1]), len(weights) - 1)


def next_arrival_s(at_s: float, mean_s: float, swing: float, peak_s: float, random: Random) -> float:
    """When the next comes, after `at_s`, in a Poisson process of one in `mean_s` on average whose rate swings over the
    day by the part `swing` (0: never changes; 1: nothing comes at the quietest moment), highest at `peak_s` into the
    day. By thinning (Lewis and Shedler 1979)."""
    while True:
        at_s = round(at_s - mean_s / (1.0 + swing) * log(1.0 - random.random()), 3)
        rate = (1.0 + swing * cos(2.0 * pi * (at_s - peak_s) / DAY_S)) / (1.0 + swing)
        if not swing or random.random() < rate:
            return at_s
