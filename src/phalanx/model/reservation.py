"""A reservation: room that is set aside for a time, for some, or for nobody (maintenance).

As Slurm's advance reservations: a job starts on reserved nodes only if it may use the reservation, or states a time
limit and ends before the reservation begins."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Reservation:
    """`nodes` are reserved whole from `start_s` to `end_s` (seconds since the epoch). Jobs of its `users`, `groups` or
    `queues` (with the queues below them) may run there while it lasts, if they ask for it by name, or, with
    `magnetic`, without asking. No users, groups and queues: maintenance, nobody may."""

    name: str
    start_s: float
    end_s: float
    nodes: tuple[str, ...]
    users: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    queues: tuple[str, ...] = ()
    magnetic: bool = False
