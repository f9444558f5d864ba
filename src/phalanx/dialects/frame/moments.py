"""Times of objects."""

from __future__ import annotations

from phalanx.client.moment import MomentError, read_moment
from phalanx.dialects.frame.dialect import Object


def created_s(obj: Object) -> float | None:
    """Return when an object was created (seconds since the epoch); None if it does not say."""
    try:
        return read_moment((obj.get("metadata") or {}).get("creationTimestamp") or "")
    except MomentError:
        return None
