"""A query for jobs. It consists of conditions, and a job must satisfy all of them. The module imports no database
library, so it can be imported quickly."""

from __future__ import annotations

from dataclasses import dataclass

from phalanx.ledger.entry import State


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """Conditions for jobs. An empty or missing condition matches every job.

    `since_s`, `until_s`: the job was live at some time between these two times (seconds since the epoch).
    `ended_before_s`: the job ended before this time.
    `users`, `queues`, `states`, `jobs` (`namespace/name`), `numbers`: the job has one of these values.
    `made`: the object that the user created for the job has one of these names (`namespace/name`).
    `arrays`: the job is a task of one of these arrays (`namespace/name`).
    `accounts`: the job's queue is one of these queues, or is below one of them."""

    since_s: float | None = None
    until_s: float | None = None
    ended_before_s: float | None = None
    users: tuple[str, ...] = ()
    queues: tuple[str, ...] = ()
    accounts: tuple[str, ...] = ()
    states: tuple[State, ...] = ()
    jobs: tuple[str, ...] = ()
    made: tuple[str, ...] = ()
    arrays: tuple[str, ...] = ()
    numbers: tuple[int, ...] = ()
    numbered: bool = False  # True to select only jobs with a Slurm job number
