"""Times of the Kubernetes API (RFC 3339, whole seconds, UTC) as seconds since the epoch."""

from __future__ import annotations

from datetime import datetime
from functools import lru_cache


@lru_cache(maxsize=65536)
def seconds(text: str) -> float:
    """Return a time such as `2026-11-21T05:03:31Z` (also with a fraction) in seconds since 1970. Raises ValueError for
    any other text."""
    return datetime.fromisoformat(text).timestamp()
