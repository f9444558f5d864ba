"""A job: roles of pods that start together, or not at all."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from phalanx.model.reason import Reason
from phalanx.model.shape import Shape


class Slot(NamedTuple):
    """One pod's place in its job: the role's position in `Job.roles`, and the pod's ordinal in the role."""

    role: int
    ordinal: int


class Placement(NamedTuple):
    """A slot and the node planned for it."""

    role: int
    ordinal: int
    node: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Role:
    """`count` pods of one shape, of which `minimum` must be placed for the job to start."""

    name: str
    count: int
    minimum: int
    shape: Shape


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """`id` is unique among live jobs (`namespace/name`). Order in a queue: higher `priority` first, then `submitted_s`
    (seconds since the epoch), then `id`. `blocked` says why the world lets it wait whatever room there is (a hold,
    missing members); such a job is never started."""

    id: str
    queue: str
    roles: tuple[Role, ...]
    priority: int = 0
    submitted_s: float = 0.0
    blocked: Reason | None = None


class Phase(StrEnum):
    """The states of `core.lifecycle`; a finished job is no longer in the book."""

    QUEUED = "queued"
    STARTING = "starting"  # decided; the world resumes it and binds it at the barrier
    RUNNING = "running"  # every pod of its minimum was bound
