"""Read Kubernetes quantities (`500m`, `2Gi`, `1e3`) as exact integers.

The grammar is that of k8s.io/apimachinery/pkg/api/resource: a signed decimal, followed by a binary suffix (Ki … Ei), a
decimal suffix (n u m k M G T P E) or an exponent (e3, E3). A fraction of the unit is rounded *up*, as in
`Quantity.MilliValue` and `Quantity.Value`, so a request is never counted too small. The greatest amount is the greatest
64-bit integer, as in Kubernetes.
"""

from __future__ import annotations

import re
from fractions import Fraction
from functools import lru_cache
from math import ceil

from phalanx.errors import PhalanxError

_FORM = re.compile(
    r"([+-]?)([0-9]{1,64}\.?[0-9]{0,64}|\.[0-9]{1,64})(?:([KMGTPE]i|[numkMGTPE])|[eE]([+-]?[0-9]{1,3}))?"
)
_LONGEST, _SHOWN = 140, 40  # the maximum lengths of an accepted text, and of a text in an error message
_GREATEST = 2**63 - 1
_SUFFIX: dict[str | None, Fraction] = {
    None: Fraction(1),
    **{name: Fraction(10) ** power for name, power in zip("numkMGTPE", (-9, -6, -3, 3, 6, 9, 12, 15, 18), strict=True)},
    **{f"{letter}i": Fraction(1024) ** power for power, letter in enumerate("KMGTPE", 1)},
}


class QuantityError(PhalanxError):
    """The error for a text that is not a quantity."""


@lru_cache(maxsize=65536)
def parse(text: str | int | float) -> Fraction:
    """Return the exact value of `text` in the quantity's own unit (cores, bytes, devices)."""
    match = _FORM.fullmatch(str(text)) if len(str(text)) <= _LONGEST else None
    if match is None:
        raise QuantityError(f"{str(text)[:_SHOWN]!r} is not a quantity; write for instance 500m, 2 or 1.5Gi")
    sign, number, suffix, exponent = match.groups()
    value = Fraction(number) * (Fraction(10) ** int(exponent) if exponent else _SUFFIX[suffix])
    return -value if sign == "-" else value


@lru_cache(maxsize=65536)
def milli(text: str | int | float) -> int:
    """Return the value of `text` in thousandths, rounded up. Phalanx counts cpu in this unit."""
    return _bounded(parse(text) * 1000)


@lru_cache(maxsize=65536)
def whole(text: str | int | float) -> int:
    """Return the value of `text` in whole units, rounded up. Phalanx counts all resources but cpu in this unit."""
    return _bounded(parse(text))


def _bounded(value: Fraction) -> int:
    return max(-_GREATEST, min(_GREATEST, ceil(value)))


def amount(resource: str, text: str | int | float) -> int:
    """Return the value of `text` in Phalanx's unit of the resource: millicores for cpu, otherwise whole units."""
    return milli(text) if resource == "cpu" else whole(text)
