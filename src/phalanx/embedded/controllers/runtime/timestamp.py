"""Times of the Kubernetes API (RFC 3339, whole seconds, UTC) as seconds since the epoch, and back."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import lru_cache


@lru_cache(maxsize=65536)
def seconds(text: str) -> float:
    """`2026-11-21T05:03:31Z` (or with a fraction) in seconds since 1970. Raises ValueError for another text."""
    return datetime.fromisoformat(text).timestamp()


def rfc3339(at_s: float) -> str:
    """metav1.Time: the fraction is cut off."""
    return datetime.fromtimestamp(int(at_s), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def micro(at_s: float) -> str:
    """metav1.MicroTime: always six digits of fraction."""
    return datetime.fromtimestamp(at_s, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
