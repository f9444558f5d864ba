"""Check strings against the `format` that the schema of a custom resource requires.

Unknown formats are ignored, as in kube-apiserver. Source: k8s.io/kube-openapi/pkg/validation/strfmt.
"""

from __future__ import annotations

import base64
import binascii
import ipaddress
import re
from collections.abc import Callable, Mapping
from datetime import date, datetime
from urllib.parse import urlsplit

from phalanx.embedded.apimachinery.schema import formats

_UUID = re.compile(r"(?i)[0-9a-f]{8}-?[0-9a-f]{4}-?([0-9a-f])[0-9a-f]{3}-?[0-9a-f]{4}-?[0-9a-f]{12}")
_DURATION = re.compile(r"[-+]?(\d+(\.\d*)?\s*(ns|us|µs|ms|s|m|h|d|w|[a-z]+)\s*)+", re.IGNORECASE)
_HOST_PART = r"[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?"
_HOST = re.compile(rf"(?=.{{1,253}}$){_HOST_PART}(\.{_HOST_PART})*")
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_DATE_TIME = re.compile(r"\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d:\d\d(\.\d+)?([Zz]|[+-]\d\d:\d\d)")


_HEX, _BYTE = "[0-9a-fA-F]{2}", "(?:[01]?[0-9]?[0-9]|2[0-4][0-9]|25[0-5])"
_NAME = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_CARD = re.compile(
    r"4\d{12}(\d{3})?|5[1-5]\d{14}|6(011|5\d\d)\d{12}|3[47]\d{13}|3(0[0-5]|[68]\d)\d{11}|(2131|1800|35\d{3})\d{11}"
)


def _uuid(version: str) -> re.Pattern[str]:
    variant = "[0-9a-f]" if version == "3" else "[89ab]"
    return re.compile(
        rf"(?i)[0-9a-f]{{8}}-?[0-9a-f]{{4}}-?{version}[0-9a-f]{{3}}-?{variant}[0-9a-f]{{3}}-?[0-9a-f]{{12}}"
    )


def _is_isbn(value: str, length: int) -> bool:
    """Return True if an ISBN has the right check digit. Blanks and dashes do not count."""
    digits = re.sub(r"[\s-]+", "", value)
    if length == 10:
        weighed = (
            [(10 if sign == "X" else int(sign)) * (place + 1) for place, sign in enumerate(digits)]
            if (re.fullmatch("[0-9]{9}[0-9X]", digits))
            else [1]
        )
        return sum(weighed) % 11 == 0
    if re.fullmatch("[0-9]{13}", digits) is None:
        return False
    return sum(int(sign) * (3 if place % 2 else 1) for place, sign in enumerate(digits)) % 10 == 0


def fits(value: str, name: str) -> bool:
    """Return True if the string has this format."""
    check = _CHECKS.get(name.replace("-", ""))
    return check is None or check(value)


def is_known(name: str, sort: str) -> bool:
    """Return True if the server checks the format of values of this type. It ignores formats that it does not know."""
    match sort:
        case "" | "string":
            return name.replace("-", "") in _CHECKS
        case "integer":
            return name in ("int32", "int64")
        case _:
            return sort == "number" and name in ("float", "double")


def _parses(parse: Callable[[str], object]) -> Callable[[str], bool]:
    def check(value: str) -> bool:
        try:
            parse(value)
        except (ValueError, binascii.Error):
            return False
        return True

    return check


def _matches(pattern: re.Pattern[str]) -> Callable[[str], bool]:
    return lambda value: pattern.fullmatch(value) is not None


def _date(value: str) -> object:
    if _DATE.fullmatch(value) is None:  # date.fromisoformat accepts other forms, too
        raise ValueError(value)
    return date.fromisoformat(value)


def _date_time(value: str) -> object:
    if _DATE_TIME.fullmatch(value) is None:
        raise ValueError(value)
    return datetime.fromisoformat(value.upper().replace(" ", "T"))


def _ipv6(value: str) -> object:
    if "%" in value:  # in Go, these addresses have no zones
        raise ValueError(value)
    return ipaddress.IPv6Address(value)


def _uri(value: str) -> object:
    parts = urlsplit(value)
    if not parts.scheme and not value.startswith("/"):
        raise ValueError(value)
    return parts


_CHECKS: Mapping[str, Callable[[str], bool]] = {
    "byte": _parses(lambda value: base64.b64decode(value, validate=True)),
    "bsonobjectid": _matches(re.compile("[0-9a-fA-F]{24}")),
    "cidr": lambda value: not formats.cidr(value),
    "creditcard": lambda value: _CARD.fullmatch(re.sub("[^0-9]+", "", value)) is not None,
    "date": _parses(_date),
    "datetime": _parses(_date_time),
    "duration": _matches(_DURATION),
    "email": lambda value: "@" in value and not value.startswith("@") and not value.endswith("@"),
    "hexcolor": _matches(re.compile("#?([0-9a-fA-F]{3}|[0-9a-fA-F]{6})")),
    "hostname": _matches(_HOST),
    "ipv4": _parses(ipaddress.IPv4Address),
    "ipv6": _parses(_ipv6),
    "isbn": lambda value: _is_isbn(value, 10) or _is_isbn(value, 13),
    "isbn10": lambda value: _is_isbn(value, 10),
    "isbn13": lambda value: _is_isbn(value, 13),
    "k8slongname": _matches(re.compile(rf"(?=.{{1,253}}$){_NAME}(\.{_NAME})*")),
    "k8sshortname": _matches(re.compile(rf"(?=.{{1,63}}$){_NAME}")),
    "mac": _matches(re.compile(rf"{_HEX}((:{_HEX})+|(-{_HEX})+)|({_HEX}){{2}}(\.({_HEX}){{2}})+")),
    "password": lambda value: True,
    "rgbcolor": _matches(re.compile(rf"rgb\(\s*{_BYTE}\s*(,\s*{_BYTE}\s*){{2}}\)")),
    "ssn": _matches(re.compile("[0-9]{3}[- ]?[0-9]{2}[- ]?[0-9]{4}")),
    "uri": _parses(_uri),
    "uuid": _matches(_UUID),
    **{f"uuid{digit}": _matches(_uuid(digit)) for digit in "345"},
}
