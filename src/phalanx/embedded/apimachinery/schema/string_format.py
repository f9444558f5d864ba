"""The `format` of strings in the schemas of custom resources: those that the API server checks.

Unknown formats are ignored, as the real server does. Source: k8s.io/kube-openapi/pkg/validation/strfmt.
"""

from __future__ import annotations

import base64
import binascii
import ipaddress
import re
from collections.abc import Callable, Mapping
from datetime import date, datetime
from urllib.parse import urlsplit

_UUID = re.compile(r"(?i)[0-9a-f]{8}-?[0-9a-f]{4}-?([0-9a-f])[0-9a-f]{3}-?[0-9a-f]{4}-?[0-9a-f]{12}")
_DURATION = re.compile(r"[-+]?(\d+(\.\d*)?\s*(ns|us|µs|ms|s|m|h|d|w|[a-z]+)\s*)+", re.IGNORECASE)
_HOST_PART = r"[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?"
_HOST = re.compile(rf"(?=.{{1,253}}$){_HOST_PART}(\.{_HOST_PART})*")
_DATE_TIME = re.compile(r"\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d:\d\d(\.\d+)?([Zz]|[+-]\d\d:\d\d)")


def fits(value: str, name: str) -> bool:
    """Return whether the string has this format."""
    check = _CHECKS.get(name)
    return check is None or check(value)


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


def _date_time(value: str) -> object:
    if _DATE_TIME.fullmatch(value) is None:
        raise ValueError(value)
    return datetime.fromisoformat(value.upper().replace(" ", "T"))


def _uri(value: str) -> object:
    parts = urlsplit(value)
    if not parts.scheme and not value.startswith("/"):
        raise ValueError(value)
    return parts


_CHECKS: Mapping[str, Callable[[str], bool]] = {
    "byte": _parses(lambda value: base64.b64decode(value, validate=True)),
    "cidr": _parses(lambda value: ipaddress.ip_network(value, strict=False)),
    "date": _parses(date.fromisoformat),
    "date-time": _parses(_date_time),
    "datetime": _parses(_date_time),
    "duration": _matches(_DURATION),
    "email": lambda value: "@" in value and not value.startswith("@") and not value.endswith("@"),
    "hostname": _matches(_HOST),
    "ipv4": _parses(ipaddress.IPv4Address),
    "ipv6": _parses(ipaddress.IPv6Address),
    "uri": _parses(_uri),
    "uuid": _matches(_UUID),
}
