"""Convert times between the API's format (RFC 3339, as metav1.Time) and Phalanx's: seconds since the epoch."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from phalanx.errors import PhalanxError

_LAST_S = 253402300799.0  # the last second of the year 9999


class MomentError(PhalanxError):
    """The error for a text that is not a time."""


def read_moment(text: object) -> float:
    """Return seconds since the epoch. `text`: a time with a time zone, or a datetime from a YAML reader. Raises
    MomentError."""
    hint = "write for instance 2026-01-31T18:00:00Z or 2026-01-31T19:00:00+01:00"
    try:
        found = text if isinstance(text, datetime) else datetime.fromisoformat(str(text))
        if found.tzinfo is None:
            raise MomentError(f"{text!s} has no time zone; {hint}")
        return found.timestamp()
    except (ValueError, OverflowError):
        raise MomentError(f"{text!s} is not a time; {hint}") from None


def write_moment(at_s: float) -> str:
    """Return the time as metav1.Time: in UTC, rounded down to a whole second. Times after the year 9999 become the last
    second of that year."""
    return datetime.fromtimestamp(min(max(at_s, 0.0), _LAST_S), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def write_micro_moment(at_s: float) -> str:
    """Return the time as metav1.MicroTime: with six fractional digits."""
    return datetime.fromtimestamp(min(max(at_s, 0.0), _LAST_S), UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def created_s(obj: Mapping[str, Any]) -> float | None:
    """Return the creation time of an object (seconds since the epoch); None if its metadata has none."""
    try:
        return read_moment((obj.get("metadata") or {}).get("creationTimestamp") or "")
    except MomentError:
        return None
