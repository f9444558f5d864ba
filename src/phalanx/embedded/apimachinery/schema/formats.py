"""Check the formats of names and values. Each function returns the errors in a string, with the messages of
kube-apiserver.

Source: k8s.io/apimachinery/pkg/util/validation (RFC 1123, RFC 1035, qualified names, label values, ports, IPs). An
empty list means that the string is valid. Results are cached, because the objects of a cluster repeat the same names,
keys and values many times.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable

from phalanx.embedded.apimachinery.caching import cached

Problems = tuple[str, ...]
Format = Callable[[str], Problems]

_LABEL = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN = _LABEL + r"(\." + _LABEL + ")*"
_SEARCH_LABEL = "[a-z0-9]([-_a-z0-9]*[a-z0-9])?"
_LABEL_1035 = "[a-z]([-a-z0-9]*[a-z0-9])?"
_NAME_PART = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
_LABEL_VALUE = f"({_NAME_PART})?"
_CONFIG_KEY = "[-._a-zA-Z0-9]+"
_HTTP_PATH = r"[A-Za-z0-9/\-._~%!$&'()*+,;=:]+"
_HTTP_HEADER = "[-A-Za-z0-9]+"

LABEL_ERROR = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', "
    "and must start and end with an alphanumeric character"
)
SUBDOMAIN_ERROR = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', "
    "and must start and end with an alphanumeric character"
)
LABEL_1035_ERROR = (
    "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, "
    "and end with an alphanumeric character"
)
NAME_ERROR = (
    "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character"
)
LABEL_VALUE_ERROR = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', "
    "and must start and end with an alphanumeric character"
)
ENV_ERROR = "a valid environment variable name must consist only of printable ASCII characters other than '='"
CONFIG_KEY_ERROR = "a valid config key must consist of alphanumeric characters, '-', '_' or '.'"
EMPTY_ERROR = "must be non-empty"


def _regex_error(message: str, pattern: str, *examples: str) -> str:
    """Return the message of `validation.RegexError`, which has two blanks before `or`."""
    if not examples:
        return f"{message} (regex used for validation is '{pattern}')"
    shown = " or ".join(f"'{one}', " for one in examples)
    return f"{message} (e.g. {shown}regex used for validation is '{pattern}')"


def length_error(limit: int, unit: str = "characters") -> str:
    """Return the message about a string that is too long. Kube-apiserver counts bytes, but only its messages about
    labels state that unit."""
    return f"must be no more than {limit} {unit}"


def range_error(low: int, high: int) -> str:
    return f"must be between {low} and {high}, inclusive"


def _matched(pattern: str, limit: int, message: str, *examples: str, unit: str = "characters") -> Format:
    compiled = re.compile(pattern)
    wrong = _regex_error(message, pattern, *examples)

    @cached(16384)
    def check(text: str) -> Problems:
        found = []
        if limit and len(text.encode()) > limit:
            found.append(length_error(limit, unit))
        if not compiled.fullmatch(text):
            found.append(wrong)
        return tuple(found)

    return check


_label = _matched(_LABEL, 63, LABEL_ERROR, "my-name", "123-abc")
dns_subdomain = _matched(_SUBDOMAIN, 253, SUBDOMAIN_ERROR, "example.com")
_prefix = _matched(_SUBDOMAIN, 253, SUBDOMAIN_ERROR, "example.com", unit="bytes")
wildcard_subdomain = _matched(
    rf"\*\.{_SUBDOMAIN}",
    253,
    "a wildcard DNS-1123 subdomain must start with '*.', followed by a valid DNS subdomain, which must consist of "
    "lower case alphanumeric characters, '-' or '.' and end with an alphanumeric character",
    "*.example.com",
)
search_domain = _matched(
    rf"_?{_SEARCH_LABEL}(\._?{_SEARCH_LABEL})*",
    253,
    SUBDOMAIN_ERROR.replace("'-' or", "'_', '-' or"),
    "example.com",
)
dns_1035_label = _matched(_LABEL_1035, 63, LABEL_1035_ERROR, "my-name", "abc-123")
label_value = _matched(_LABEL_VALUE, 63, LABEL_VALUE_ERROR, "MyValue", "my_value", "12345", unit="bytes")
http_header_name = _matched(
    _HTTP_HEADER, 0, "a valid HTTP header must consist of alphanumeric characters or '-'", "X-Header-Name"
)


def dns_label(text: str) -> Problems:
    """Check a name without dots. If the string contains dots but is a valid subdomain, the only error is about the
    dots."""
    found = _label(text)
    if not found or "." not in text or re.fullmatch(_SUBDOMAIN, text) is None:
        return found
    return (*found[:-1], "must not contain dots")


_printable_env = re.compile("[ -<>-~]+")
_config_key = _matched(_CONFIG_KEY, 253, CONFIG_KEY_ERROR, "key.name", "KEY_NAME", "key-name")
_path = re.compile(_HTTP_PATH)
_name_part = re.compile(_NAME_PART)


@cached(16384)
def qualified_name(text: str) -> Problems:
    """Check a qualified name such as `example.com/name`: the key of a label or annotation, a finalizer, a taint, a
    resource."""
    parts = text.split("/")
    found: list[str] = []
    if len(parts) > 2:
        message = _regex_error("a valid label key " + NAME_ERROR, _NAME_PART, "MyName", "my.name", "123-abc")
        return (message + " with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')",)
    if len(parts) == 2:
        if not parts[0]:
            found.append("prefix part " + EMPTY_ERROR)
        else:
            found += ("prefix part " + problem for problem in _prefix(parts[0]))
    name = parts[-1]
    if not name:
        found.append("name part " + EMPTY_ERROR)
    elif len(name.encode()) > 63:
        found.append("name part " + length_error(63, "bytes"))
    if not _name_part.fullmatch(name):
        found.append("name part " + _regex_error(NAME_ERROR, _NAME_PART, "MyName", "my.name", "123-abc"))
    return tuple(found)


def as_prefix(text: str) -> str:
    """Return the string to check instead of the prefix `text`. A prefix may end with a dash, but a name may not, so the
    dash is replaced."""
    return text[:-2] + "a" if text.endswith("-") and len(text) > 1 else text


def env_name(text: str) -> Problems:
    """Check the name of an environment variable, which may contain all printable ASCII characters except `=` (since
    1.34)."""
    return () if _printable_env.fullmatch(text) else (ENV_ERROR,)


def config_key(text: str) -> Problems:
    """Check a key of a ConfigMap or Secret."""
    if text in (".", ".."):
        return (f"must not be '{text}'",)
    return _config_key(text) + (("must not start with '..'",) if text.startswith("..") else ())


def domain_path(text: str) -> Problems:
    """Check a domain that is followed by a path, such as `example.com/path` (`Job.spec.managedBy`)."""
    domain, slash, path = text.partition("/")
    if not slash or not domain or not path:
        return ('must be a domain-prefixed path (such as "acme.io/foo")',)
    if problems := dns_subdomain(domain):
        return problems
    return () if _path.fullmatch(path) else (_regex_error("Invalid path", _HTTP_PATH),)


def port_number(port: int) -> Problems:
    return () if 1 <= port <= 65535 else (range_error(1, 65535),)


@cached(1024)
def port_name(text: str) -> Problems:
    """Check the name of a port, which must be an IANA service name."""
    found = []
    if len(text) > 15:
        found.append("must be no more than 15 characters")
    if not re.fullmatch("[-a-z0-9]+", text):
        found.append("must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)")
    if not re.search("[a-z]", text):
        found.append("must contain at least one letter (a-z)")
    if "--" in text:
        found.append("must not contain consecutive hyphens")
    if text.startswith("-") or text.endswith("-"):
        found.append("must not begin or end with a hyphen")
    return tuple(found)


def _address(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address:
    """Return the address. As in Go, an address has no zone (`%eth0`). Raises ValueError."""
    if "%" in text:
        raise ValueError(text)
    return ipaddress.ip_address(text)


def ip(text: str) -> Problems:
    try:
        _address(text)
    except ValueError:
        return ("must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)",)
    return ()


def outer_ip(text: str) -> Problems:
    """Check that other machines can reach an address (ValidateNonSpecialIP). For example, a loopback address is an
    error."""
    try:
        address = _address(text)
    except ValueError:
        return ("must be a valid IP address",)
    if address.is_unspecified:
        return (f"may not be unspecified ({address})",)
    if address.is_loopback:
        return ("may not be in the loopback range (127.0.0.0/8, ::1/128)",)
    if address.is_link_local:
        return ("may not be in the link-local range (169.254.0.0/16, fe80::/10)",)
    if any(address in network for network in _LOCAL_MULTICAST if network.version == address.version):
        return ("may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)",)
    return ()


_CIDR = re.compile("[^%/]+/[0-9]+")
_LOCAL_MULTICAST = (ipaddress.ip_network("224.0.0.0/24"), ipaddress.ip_network("ff02::/16"))


def cidr(text: str) -> Problems:
    """Check a network in CIDR notation. As in Go, a zone is not allowed, and the prefix length must be a number instead
    of a netmask."""
    try:
        if not _CIDR.fullmatch(text):
            raise ValueError(text)
        ipaddress.ip_network(text, strict=False)
    except ValueError:
        return ("must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)",)
    return ()


def path_segment(text: str) -> Problems:
    """Check that a name is a valid segment of a URL path. This is the only rule for names of some kinds, such as
    roles."""
    if text in (".", ".."):
        return (f"may not be '{text}'",)
    return tuple(f"may not contain '{bad}'" for bad in ("/", "%") if bad in text)
