"""A job: roles of pods that start together, or not at all."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from phalanx.model.pod import Shape
from phalanx.model.reason import Reason
from phalanx.model.topology import TopologyRequest


class Slot(NamedTuple):
    """One pod's place in its job: the role's position in `Job.roles`, and the pod's ordinal in the role."""

    role: int
    ordinal: int


class Placement(NamedTuple):
    """A slot and the node planned for it; `devices`: names of the node's devices that the pod was given, if any."""

    role: int
    ordinal: int
    node: str
    devices: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Role:
    """`count` pods of one shape, of which `minimum` must be placed for the job to start. `group`: the name of the
    `Group` it belongs to; empty: the job itself."""

    name: str
    count: int
    minimum: int
    shape: Shape
    group: str = ""
    closeness: TopologyRequest | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """Roles, and groups, that belong together. `minimum` of its members (roles and groups directly in it) must be
    placed, each with its own minimum, for the group to count as placed; None: all. `parent` empty: the job itself."""

    name: str
    parent: str = ""
    minimum: int | None = None
    closeness: TopologyRequest | None = None


class DependencyType(StrEnum):
    """When a dependency is met (Slurm's `--dependency`)."""

    START = "start"  # the other has started, or is over
    OK = "ok"  # the other has succeeded
    NOT_OK = "not-ok"  # the other has failed or was deleted
    ANY = "any"  # the other is over, however


@dataclass(frozen=True, slots=True, kw_only=True)
class Dependency:
    """On the job with that id."""

    job: str
    after: DependencyType = DependencyType.OK


class Outcome(StrEnum):
    """How a job that is over ended."""

    SUCCEEDED = "succeeded"
    FAILED = "failed"
    DELETED = "deleted"


class GangSize(StrEnum):
    """What happens to the pods between a role's minimum and its count."""

    ELASTIC = "elastic"  # it starts with as many as fit, grows when there is room, and gives the surplus back first
    FIXED_AT_START = "fixed-at-start"  # as many as fit when it starts, and so it stays (Kueue's partial admission)


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """`id` is unique among live jobs (`namespace/name`). `submitted_s`, `begin_s`, `deadline_s`: seconds since the
    epoch. `limit_s`: it is stopped when it has run that long. `estimate_s`: how long it is expected to run, if that
    is known better than by `limit_s`; used to order backfill, never to promise. `blocked` says why the world lets it
    wait whatever room there is (a hold, missing members); such a job is never started.

    `preempted`: how often it gave way whole before the book knew it, as its world remembers.
    `preemptible=False`: nobody may preempt it. `preempts=False`: it preempts nobody. `requires_any`: one of the
    dependencies is enough; else all. `singleton`: one of the user's jobs of that name at a time. `array`: at most
    `array_cap` jobs of the same user and array run at a time. `reservation`: it asks to run in that one."""

    id: str
    queue: str
    roles: tuple[Role, ...]
    priority: int = 0
    submitted_s: float = 0.0
    blocked: Reason | None = None
    user: str = ""
    group: str = ""
    groups: tuple[Group, ...] = ()
    closeness: TopologyRequest | None = None
    size: GangSize = GangSize.ELASTIC
    preemptible: bool = True
    preempts: bool = True
    limit_s: float | None = None
    estimate_s: float | None = None
    begin_s: float | None = None
    deadline_s: float | None = None
    after: tuple[Dependency, ...] = ()
    requires_any: bool = False
    singleton: str = ""
    array: str = ""
    array_cap: int | None = None
    reservation: str = ""
    nice: int = 0
    qos: str = ""
    preempted: int = 0


class Phase(StrEnum):
    """The states of `core.fold.lifecycle`; a finished job is no longer in the book."""

    QUEUED = "queued"
    STARTING = "starting"  # decided; the world resumes it and binds it at the barrier
    RUNNING = "running"  # every pod of its minimum was bound
    STOPPING = "stopping"  # preempted whole: it holds its room until its pods are gone, then waits again
