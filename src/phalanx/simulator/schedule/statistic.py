"""Statistics: means, percentiles, Jain's index, paired confidence intervals.

Sums are exact (`math.fsum`), so results do not depend on the order of summation."""

from __future__ import annotations

from collections.abc import Sequence
from math import fsum, sqrt

# Two-sided 95 % quantiles of Student's t for 1, 2, … degrees of freedom. The normal quantile is used for more.
T_95 = (
    *(12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131),
    *(2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042),
)
NORMAL_95 = 1.960


def mean(values: Sequence[float]) -> float:
    return fsum(values) / len(values) if values else 0.0


def percentile(ordered: Sequence[float], part: float) -> float:
    """Return the percentile of sorted values: the value below which the fraction `part` (0 to 1) of them lies, with
    linear interpolation."""
    if not ordered:
        return 0.0
    at = part * (len(ordered) - 1)
    low = int(at)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (at - low)


def jain(values: Sequence[float]) -> float:
    """Return Jain's index (Σx)² / (n Σx²): 1 if all values are equal, 1/n if only one is not 0 (Jain, Chiu, Hawe 1984);
    1 without values."""
    squares = fsum(value * value for value in values)
    return fsum(values) ** 2 / (len(values) * squares) if squares else 1.0


def half_width_95(values: Sequence[float]) -> float:
    """Return half the width of the 95 % confidence interval of the mean; 0 for a single value. For paired differences
    it is the interval of the mean difference."""
    if len(values) < 2:
        return 0.0
    middle = mean(values)
    variance = fsum((value - middle) ** 2 for value in values) / (len(values) - 1)
    quantile = T_95[len(values) - 2] if len(values) - 2 < len(T_95) else NORMAL_95
    return quantile * sqrt(variance / len(values))
