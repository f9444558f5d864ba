"""Read the options of a request from its query parameters. Contradictory options are refused with the messages of
kube-apiserver."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from phalanx.embedded.apimachinery.meta.status import (
    Cause,
    StatusError,
    bad_request,
    forbidden_field,
    invalid,
    invalid_value,
    not_supported,
    required,
    shown,
    too_long,
)
from phalanx.embedded.apiserver.transport.request import HttpRequest

_INTEGER = re.compile("[+-]?[0-9]+")
_INTEGER_SIGNS = 40  # the maximum length of an integer in a query, with leading zeros
_GROUP = "meta.k8s.io"
_MANAGER_BYTES = 128
NOT_OLDER, EXACT = "NotOlderThan", "Exact"


@dataclass(frozen=True, slots=True, kw_only=True)
class ListOptions:
    """The options of a list or watch. `version`: the resourceVersion; None if the query has none. `limit`: the maximum
    number of objects on a page; 0 for all objects. `timeout_s`: None for the server's default."""

    label_selector: str = ""
    field_selector: str = ""
    version: int | None = None
    version_match: str = ""
    limit: int = 0
    token: str = ""
    watch: bool = False
    bookmarks: bool = False
    send_initial_events: bool | None = None
    timeout_s: int | None = None


def list_options(request: HttpRequest, *, watch: bool) -> ListOptions:
    """Return the options of a list or watch. Raises `StatusError` 400 for values that cannot be parsed, 422 for
    contradictions, and 500 for a watch whose resourceVersion is not a number."""
    query = request.query
    if not query:
        return ListOptions(watch=watch)
    text = request.text
    found = ListOptions(
        label_selector=text("labelSelector"),
        field_selector=text("fieldSelector"),
        version=None,
        version_match=text("resourceVersionMatch"),
        limit=max(0, number(request, "limit") or 0),
        token=text("continue"),
        watch=watch,
        bookmarks=request.flag("allowWatchBookmarks"),
        send_initial_events=request.flag("sendInitialEvents") if "sendInitialEvents" in query else None,
        timeout_s=number(request, "timeoutSeconds"),
    )
    raw = text("resourceVersion")
    if causes := _contradictions(found, raw):
        raise invalid(_GROUP, "ListOptions", "", causes)
    return _with_version(found, raw) if raw else found


def number(request: HttpRequest, name: str) -> int | None:
    """Return the value of a parameter that is a 64-bit integer; None if the parameter is missing. Raises `StatusError`
    400."""
    text = request.text(name)
    if not text:
        return None
    if _INTEGER.fullmatch(text) is None:
        raise bad_request(f"strconv.ParseInt: parsing {shown(text)}: invalid syntax")
    if len(text) > _INTEGER_SIGNS or not -(2**63) <= (value := int(text)) < 2**63:
        raise bad_request(f"strconv.ParseInt: parsing {shown(text)}: value out of range")
    return value


def _contradictions(options: ListOptions, version: str) -> list[Cause]:
    causes, match = [], options.version_match
    if options.watch:
        return _watch_contradictions(options)
    if options.send_initial_events is not None:
        causes.append(forbidden_field("sendInitialEvents", "sendInitialEvents is forbidden for list"))
    if not match:
        return causes
    field = "resourceVersionMatch"
    if options.token:
        causes.append(forbidden_field(field, "resourceVersionMatch is forbidden when continue is provided"))
    if not version:
        causes.append(forbidden_field(field, "resourceVersionMatch is forbidden unless resourceVersion is provided"))
    if match not in (EXACT, NOT_OLDER):
        causes.append(not_supported(field, match, (EXACT, NOT_OLDER, "")))
    if match == EXACT and version == "0":
        why = 'resourceVersionMatch "exact" is forbidden for resourceVersion "0"'
        causes.append(forbidden_field(field, why))
    return causes


def _watch_contradictions(options: ListOptions) -> list[Cause]:
    causes, match, field = [], options.version_match, "resourceVersionMatch"
    initial = options.send_initial_events
    if initial is not None and match != NOT_OLDER:
        why = "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"
        causes.append(forbidden_field(field, why))
    if match and initial is None:
        why = "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided"
        causes.append(forbidden_field(field, why))
    if match and match != NOT_OLDER:
        causes.append(not_supported(field, match, (NOT_OLDER,)))
    if options.token:
        causes.append(forbidden_field(field, "resourceVersionMatch is forbidden when continue is provided"))
    return causes


def _with_version(options: ListOptions, raw: str) -> ListOptions:
    if why := not_unsigned(raw):
        why = f"resourceVersion: Invalid value: {shown(raw)}: {why}"
        if options.watch:
            raise StatusError(500, "", why)
        raise bad_request(f"invalid resource version: {why}")
    fields = {name: getattr(options, name) for name in ListOptions.__slots__}
    return ListOptions(**(fields | {"version": int(raw)}))


def not_unsigned(text: str) -> str:
    """Return the reason why a text is not an unsigned 64-bit integer, with Go's message; "" if it is one."""
    if not text.isascii() or not text.isdigit():
        return f"strconv.ParseUint: parsing {shown(text)}: invalid syntax"
    if len(text) > _INTEGER_SIGNS or int(text) >= 2**64:
        return f"strconv.ParseUint: parsing {shown(text)}: value out of range"
    return ""


def dry_run(request: HttpRequest, kind: str) -> bool:
    """Return True if the request is a dry run. `kind`: the kind of the options, for the message. Raises `StatusError`
    422."""
    return is_dry_run(request.query.get("dryRun") or (), kind)


def is_dry_run(values: Sequence[str], kind: str) -> bool:
    """Return True if these values of `dryRun` request a dry run. Raises `StatusError` 422."""
    if any(value != "All" for value in values):
        raise invalid(_GROUP, kind, "", [not_supported("dryRun", values, ("All",))])
    return bool(values)


_UNITS = ("ns", "us", "µs", "μs", "ms", "s", "m", "h")
_DURATION_PART = re.compile(r"(?:[0-9]+\.?[0-9]*|\.[0-9]+)([^0-9.]*)")


def check_timeout(request: HttpRequest) -> None:
    """Check that the parameter `timeout` is a duration in Go's format. The server ignores its value. Raises
    `StatusError` 400."""
    text = request.text("timeout")
    if text and (why := _not_duration(text)):
        raise bad_request(f"invalid timeout specified in the request URL - time: {why} duration {shown(text)}")


def _not_duration(text: str) -> str:
    rest = text[1:] if text[:1] in "+-" else text
    if rest == "0":
        return ""
    while rest:
        part = _DURATION_PART.match(rest)
        if part is None:
            break
        if not part[1]:
            return "missing unit in"
        if part[1] not in _UNITS:
            return f"unknown unit {shown(part[1])} in"
        rest = rest[part.end() :]
        if not rest:
            return ""
    return "invalid"


def field_validation(request: HttpRequest, kind: str) -> str:
    """Return how the server must handle fields that the schema does not have: Ignore, Warn or Strict. Raises
    `StatusError` 422."""
    value = request.text("fieldValidation") or "Warn"
    if value not in ("Ignore", "Warn", "Strict"):
        raise invalid(_GROUP, kind, "", [not_supported("fieldValidation", value, ("", "Ignore", "Strict", "Warn"))])
    return value


def forced(request: HttpRequest, *, applies: bool) -> bool:
    """Return True if an apply takes over fields with conflicts. Raises `StatusError` 422 for options that do not fit
    the PATCH."""
    causes = []
    if applies and not request.text("fieldManager"):
        causes.append(required("fieldManager", "is required for apply patch"))
    if not applies and "force" in request.query:
        causes.append(forbidden_field("force", "may not be specified for non-apply patch"))
    if causes:
        raise invalid(_GROUP, "PatchOptions", "", causes)
    return request.flag("force")


def field_manager(request: HttpRequest, kind: str) -> str:
    """Return the field manager of a write. The query names it; if it does not, the manager is the first word of the
    user agent. Raises `StatusError` 422."""
    given = request.text("fieldManager")
    if len(given.encode()) > _MANAGER_BYTES:
        raise invalid(_GROUP, kind, "", [too_long("fieldManager", _MANAGER_BYTES)])
    if not given.isprintable():
        wrong = [(at, sign) for at, sign in enumerate(given) if not sign.isprintable()]
        places = ((len(given[:at].encode()), ord(sign)) for at, sign in wrong)
        words = (f"invalid character U+{code:04X} (at position {place})" for place, code in places)
        raise invalid(_GROUP, kind, "", [invalid_value("fieldManager", given, why) for why in words])
    return request.manager
