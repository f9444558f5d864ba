"""Parse and print quantities as the API server does: `"0.5"` of a CPU becomes `"500m"`, and `"1024Ki"` becomes `"1Mi"`.

The string that a client wrote determines the family of suffixes (binary `Ki`, decimal `k`, exponent `e3`). A quantity
is printed in its shortest exact form within this family. Amounts are exact integers, which count billionths and are
rounded up, as in k8s.io/apimachinery pkg/api/resource. Results are cached for each string, because a cluster uses few
different quantities.
"""

from __future__ import annotations

import re
from decimal import MAX_EMAX, MIN_EMIN, ROUND_UP, Context
from enum import Enum
from fractions import Fraction
from math import ceil

from phalanx.embedded.apimachinery.caching import cached

NANO = 10**9
_MILLI = 10**6  # the number of nano units in a milli unit
# From Kubernetes' documentation: "no quantity may represent a number greater than 2^63-1 in magnitude … will be
# capped".
GREATEST = 2**63 - 1
_EXACT_DIGITS = 40  # results are exact up to this number of digits before and after the point
_EXPONENT_DIGITS = 19  # the number of digits of the largest 64-bit integer
_DIGITS = Context(prec=2 * _EXACT_DIGITS, rounding=ROUND_UP, Emin=MIN_EMIN, Emax=MAX_EMAX)
_FORM = re.compile(r"([+-]?)([0-9]*+)(?:\.([0-9]*+))?([A-Za-z]*+)([+-]?[0-9]*+)")
_LOOSE = re.compile(r"^([+-]?(?=[0-9.])[0-9]*+\.?[0-9]*+)([eEinumkKMGTP]*+[-+]?[0-9]*+)$")
_BINARY = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_DECIMAL = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_DECIMAL_SUFFIX = {power: suffix for suffix, power in _DECIMAL.items()}
_BINARY_SUFFIX = ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"]

FORMAT_ERROR = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
SUFFIX_ERROR = "unable to parse quantity's suffix"


class Family(Enum):
    BINARY = "binary"
    DECIMAL = "decimal"
    EXPONENT = "exponent"


class QuantityParseError(ValueError):
    """Raised for a string that is not a quantity. The message is that of kube-apiserver's parser."""


@cached(16384)
def parse(text: str) -> tuple[int, Family]:
    """Return the amount in billionths, rounded away from zero, and the family of its suffix. Raises
    QuantityParseError."""
    found = _FORM.fullmatch(text)
    if found is None or not (found[2] or found[3]):
        raise QuantityParseError(FORMAT_ERROR if not _LOOSE.match(text) else SUFFIX_ERROR)
    sign, whole, fraction, letters, exponent = found.groups()
    factor, power, family = _scale(letters, exponent)
    amount = _bounded(whole, fraction or "", factor, power)
    return (-amount if sign == "-" else amount), family


def _bounded(whole: str, fraction: str, factor: int, power: int) -> int:
    """Return the billionths of `whole.fraction * factor * 10**power`, rounded up. The computation time does not depend
    on the exponent: an amount far above the greatest quantity becomes the greatest quantity, and an amount far below a
    billionth becomes a billionth."""
    number = _DIGITS.create_decimal(f"{whole or 0}.{fraction or 0}")
    if not number:
        return 0
    magnitude = number.adjusted() + power
    if magnitude > _EXACT_DIGITS:
        return GREATEST * NANO
    if magnitude < -_EXACT_DIGITS:
        return 1
    return ceil(Fraction(number) * factor * Fraction(10) ** power * NANO)


def _scale(letters: str, exponent: str) -> tuple[int, int, Family]:
    """Return the factor, the power of ten and the family that a suffix stands for. Raises QuantityParseError."""
    if letters in ("e", "E") and exponent not in ("", "+", "-"):
        if len(exponent) > _EXPONENT_DIGITS:
            raise QuantityParseError(SUFFIX_ERROR)
        return 1, int(exponent), Family.EXPONENT
    if exponent:
        raise QuantityParseError(SUFFIX_ERROR)
    if letters in _BINARY:
        return 2 ** _BINARY[letters], 0, Family.BINARY
    if letters in _DECIMAL:
        return 1, _DECIMAL[letters], Family.DECIMAL
    raise QuantityParseError(SUFFIX_ERROR if _LOOSE.match("1" + letters) else FORMAT_ERROR)


@cached(16384)
def canonical(text: str) -> str:
    """Return the canonical form, which the server stores and prints for a quantity. Raises QuantityParseError."""
    return printed(*parse(text))


@cached(16384)
def in_thousandths(text: str) -> str:
    """Return the canonical form of a quantity, rounded up to whole thousandths. The server stores amounts in resource
    lists in this form. Raises QuantityParseError."""
    nano, family = parse(text)
    thousandths = -(-abs(nano) // _MILLI)
    return printed(thousandths * _MILLI if nano >= 0 else -thousandths * _MILLI, family)


def printed(nano: int, family: Family = Family.DECIMAL) -> str:
    """Return the shortest exact text of an amount in billionths: `"500m"` for 500_000_000."""
    if nano == 0:
        return "0"
    if family is Family.BINARY and abs(nano) >= 1024 * NANO:
        return _binary(nano)
    power = -9
    while nano % 1000 == 0 and (power < 18 or family is Family.EXPONENT):
        nano, power = nano // 1000, power + 3
    if family is Family.EXPONENT:
        return f"{nano}e{power}" if power else str(nano)
    return f"{nano}{_DECIMAL_SUFFIX[power]}"


def _binary(nano: int) -> str:
    amount = -(-nano // NANO)
    step = 0
    while amount % 1024 == 0 and step < len(_BINARY_SUFFIX) - 1:
        amount, step = amount // 1024, step + 1
    return f"{amount}{_BINARY_SUFFIX[step]}"


def of(value: str | int | float) -> int:
    """Return the billionths of a quantity that is known to be valid."""
    return parse(value if isinstance(value, str) else str(value))[0]


def add(left: str, right: str) -> str:
    """Return the sum of two quantities. The sum has a suffix of the same family as the left quantity, as in
    `Quantity.Add`."""
    amount, family = parse(left)
    return printed(amount + parse(right)[0], family)
