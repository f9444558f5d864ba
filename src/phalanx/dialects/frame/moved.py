"""What an object of another scheduler's becomes here, as `phalanx migrate` says it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Moved:
    """An object, what it becomes, and what will be different."""

    object: str
    becomes: str
    notes: tuple[str, ...] = ()
