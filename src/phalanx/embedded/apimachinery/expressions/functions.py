"""Functions of Kubernetes' CEL libraries for addresses, networks and URLs, and the names of all functions.

In this module, the value of an address, of a network or of a URL is a string, as for quantities. Source:
k8s.io/apiserver/pkg/cel/library (`ip.go`, `cidr.go`, `urls.go`), with the rules of Go's net/netip and net/url."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Any
from urllib.parse import SplitResult, parse_qs, quote, urlsplit

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network

_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")
_BAD_ESCAPE = re.compile(r"%(?![0-9A-Fa-f]{2})")
_UNESCAPED = "/$&+,:;=@!'()*~-._%"


def _address(text: str) -> Address:
    """Parse an address. Raises ValueError for a string that is not an address, for an address with a zone, and for an
    IPv4-mapped IPv6 address."""
    try:
        found = ip_address(text)
    except ValueError:
        raise ValueError(f'IP Address "{text}" parse error during conversion from string') from None
    if "%" in text or (isinstance(found, IPv6Address) and found.ipv4_mapped):
        raise ValueError(f'IP Address "{text}" with zone or mapped is not allowed')
    return found


def _network(text: str) -> Network:
    """Parse a network in CIDR notation. Raises ValueError."""
    address, slash, bits = text.partition("/")
    if not slash or not bits.isdigit() or (len(bits) > 1 and bits[0] == "0"):
        raise ValueError(f"network address parse error during conversion from string: {text}")
    _address(address)
    return ip_network(text, strict=False)


def _host(text: str) -> Address:
    """Parse an address or a network, and return the address."""
    return _address(text.partition("/")[0])


def _url(text: str) -> SplitResult:
    """Return the parts of a URL. Raises ValueError for a string that is neither an absolute URL nor an absolute
    path."""
    found = urlsplit(text)
    bad = any(sign <= " " or sign == "\x7f" for sign in text) or _BAD_ESCAPE.search(text)
    if not text or bad or not (_SCHEME.match(text) or text.startswith("/")):
        raise ValueError(f'URL parse error during conversion from string: parse "{text}": invalid URI for request')
    _ = found.port  # raises ValueError if the port is not a number
    return found


def _can(read: Callable[[str], Any], text: str) -> bool:
    try:
        read(text)
    except ValueError:
        return False
    return True


def _contains(network: str, other: str) -> bool:
    """Return True if a network contains an address or another network."""
    held, found = _network(network), _host(other)
    if held.version != found.version or found not in held:
        return False
    return "/" not in other or _network(other).prefixlen >= held.prefixlen


def _text_of(read: Callable[[str], Any]) -> Callable[[str], str]:
    """Return a function that parses a string with `read` only to check it, and returns the string unchanged."""

    def convert(text: str) -> str:
        read(text)
        return text

    return convert


def _hostname(text: str) -> str:
    host = _url(text).netloc.rpartition("@")[2]
    return host[1:].partition("]")[0] if host.startswith("[") else host.partition(":")[0]


def _distinct(values: list[object]) -> list[object]:
    return [one for place, one in enumerate(values) if one not in values[:place]]


def _flat(values: list[object], depth: int = 1) -> list[object]:
    inner = [_flat(one, depth - 1) if isinstance(one, list) and depth else [one] for one in values]
    return [one for part in inner for one in part]


FUNCTIONS: Mapping[str, Callable[..., Any]] = {
    "sort": sorted,
    "distinct": _distinct,
    "reverse": lambda values: values[::-1],
    "slice": lambda values, start, end: values[start:end],
    "flatten": _flat,
    "isIP": lambda text: _can(_address, text),
    "ip": lambda text: str(_host(text)) if "/" in text else _text_of(_address)(text),
    "family": lambda text: _host(text).version,
    "isUnspecified": lambda text: _host(text).is_unspecified,
    "isLoopback": lambda text: _host(text).is_loopback,
    "isLinkLocalMulticast": lambda text: any(_contains(one, text) for one in ("224.0.0.0/24", "ff02::/16")),
    "isLinkLocalUnicast": lambda text: _host(text).is_link_local,
    "isGlobalUnicast": lambda text: (
        not (
            _host(text).is_unspecified
            or _host(text).is_loopback
            or _host(text).is_multicast
            or _host(text).is_link_local
        )
    ),
    "isCIDR": lambda text: _can(_network, text),
    "cidr": _text_of(_network),
    "containsIP": lambda network, text: _contains(network, str(_address(text))),
    "containsCIDR": _contains,
    "masked": lambda text: str(_network(text)),
    "prefixLength": lambda text: _network(text).prefixlen,
    "isURL": lambda text: _can(_url, text),
    "url": _text_of(_url),
    "getScheme": lambda text: _url(text).scheme,
    "getHost": lambda text: _url(text).netloc.rpartition("@")[2],
    "getHostname": _hostname,
    "getPort": lambda text: str(_url(text).port or ""),
    "getEscapedPath": lambda text: quote(_url(text).path, safe=_UNESCAPED),
    "getQuery": lambda text: parse_qs(_url(text).query, keep_blank_values=True),
}

# Every function and macro that Kubernetes 1.36 accepts in expressions. Phalanx does not support all of these functions.
NAMES = frozenset(
    (
        *FUNCTIONS,
        *("all", "exists", "exists_one", "existsOne", "filter", "has", "map", "in"),
        *("transformList", "transformMap", "transformMapEntry", "optMap", "optFlatMap"),
        *("bool", "bytes", "double", "duration", "dyn", "int", "string", "timestamp", "type", "uint"),
        *("contains", "endsWith", "matches", "size", "startsWith"),
        *("charAt", "find", "findAll", "format", "indexOf", "join", "lastIndexOf", "lowerAscii", "quote", "replace"),
        *("reverse", "split", "strings", "substring", "trim", "upperAscii"),
        *("isSorted", "sum", "min", "max", "first", "last", "slice", "flatten", "distinct", "range", "sort", "sortBy"),
        *("getDate", "getDayOfMonth", "getDayOfWeek", "getDayOfYear", "getFullYear", "getHours", "getMilliseconds"),
        *("getMinutes", "getMonth", "getSeconds"),
        *("quantity", "isQuantity", "compareTo", "isLessThan", "isGreaterThan", "add", "sub", "sign", "isInteger"),
        *("asInteger", "asApproximateFloat", "semver", "isSemver", "major", "minor", "patch"),
        *("of", "none", "ofNonZeroValue", "or", "orValue", "hasValue", "value", "unwrap", "unwrapOpt"),
        *("equivalent", "intersects", "isCanonical", "named", "validate", "escapeKey"),
        *("dns1123Label", "dns1123Subdomain", "dns1035Label", "qualifiedName", "dns1123LabelPrefix"),
        *("dns1123SubdomainPrefix", "dns1035LabelPrefix", "labelValue", "uri", "uuid", "byte", "date", "datetime"),
        *("group", "resource", "subresource", "namespace", "name", "serviceAccount", "path", "check", "allowed"),
        *("reason", "errored", "error", "requestResource", "fieldSelector", "labelSelector"),
    )
)
