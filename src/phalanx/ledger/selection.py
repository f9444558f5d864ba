"""Which jobs are asked for: conditions that must all hold."""

from __future__ import annotations

from dataclasses import dataclass

from phalanx.ledger.entry import State


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """Jobs that were live at some moment from `since_s` to `until_s` (seconds since the epoch; None: no bound), of one
    of `users`, `queues`, `accounts` (a queue, with all below it), in one of `states`, of one of these names (`jobs`,
    `namespace/name`) or `numbers`. `ended_before_s`: that ended earlier. Empty: any."""

    since_s: float | None = None
    until_s: float | None = None
    ended_before_s: float | None = None
    users: tuple[str, ...] = ()
    queues: tuple[str, ...] = ()
    accounts: tuple[str, ...] = ()
    states: tuple[State, ...] = ()
    jobs: tuple[str, ...] = ()
    numbers: tuple[int, ...] = ()
    numbered: bool = False  # only those that have a number
