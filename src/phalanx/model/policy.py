"""How to decide, as data. Queues carry their own settings; this is what holds for the whole cluster."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """`default_queue` takes jobs that name none, if set."""

    default_queue: str = "default"
