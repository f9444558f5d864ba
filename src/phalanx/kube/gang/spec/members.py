"""The members of one gang (its Jobs and bare pods), and their options. The module also defines pod sources. The
*source* of a role states what creates its pods: a Job, a driver, or neither (bare pods)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from typing import TypeAlias

from phalanx.client.kind import PODS
from phalanx.dialects.frame.dialect import GroupClaim, RoleClaim
from phalanx.kube.gang.spec.declared_roles import GangSpecError
from phalanx.kube.gang.spec.job_options import single_value
from phalanx.kube.read import labels
from phalanx.kube.read.pod import Pod
from phalanx.kube.read.workload.batch_job import BatchJob
from phalanx.model.pod import Shape


@dataclass(frozen=True, slots=True)
class JobPods:
    """The pod source (the creator of a role's pods) of a role with a Job. `uid`: the uid of this Job. `later`: True if
    the pods are created only after other pods of the gang run, so that the start does not wait for them."""

    uid: str
    later: bool = field(default=False, compare=False)


@dataclass(frozen=True, slots=True)
class BarePods:
    """The pod source (the origin of a role's pods) of a role of bare pods, which belong to no Job. All bare pods of the
    gang with this role label and this shape belong to the role."""

    role: str
    shape: Shape


@dataclass(frozen=True, slots=True)
class FuturePods:
    """The pod source (the creator of a role's pods) of a role whose pods a driver creates after the start."""


PodSource: TypeAlias = JobPods | BarePods | FuturePods


@dataclass(frozen=True, slots=True, kw_only=True)
class GangMembers:
    """The unfinished members of one gang: Jobs and bare pods that have not ended, oldest first. `finished`: the number
    of finished Jobs; the start no longer waits for these Jobs. `sizes`: a map from a Job's uid to the number of pods
    that the Job can still run at once. It replaces the number that follows from the Job's status, because the status
    may be outdated. `claimed`: settings from another scheduler's objects that replace the members' own settings.
    `declared`: a dialect's settings for the roles of bare pods. `group`: a dialect's settings for all bare pods
    together. `everyone`: the Jobs, then the pods."""

    id: str
    jobs: Sequence[BatchJob]
    pods: Sequence[Pod]
    finished: int = 0
    sizes: Mapping[str, int] = field(default_factory=dict)
    claimed: Mapping[str, str] = field(default_factory=dict)
    declared: Mapping[str, RoleClaim] = field(default_factory=dict)
    group: GroupClaim | None = None
    everyone: tuple[BatchJob | Pod, ...] = field(init=False)

    def size(self, job: BatchJob) -> int:
        return self.sizes[job.uid] if job.uid in self.sizes else job.size()

    def __post_init__(self) -> None:
        object.__setattr__(self, "everyone", (*self.jobs, *self.pods))

    @property
    def keys(self) -> Set[str]:
        """Return the keys of all options that are set by a member, or by a dialect for the gang."""
        return frozenset(self.claimed).union(*(member.options for member in self.everyone))

    def options(self, key: str) -> dict[str, str]:
        """Return the values of the option `key`, each with the name of the first member that has this value."""
        if key in self.claimed:
            return {self.claimed[key]: self.id}
        if len(everyone := self.everyone) == 1:  # faster for a gang with one member, and nearly all gangs have one
            [alone] = everyone
            return {alone.options[key]: alone.name} if key in alone.options else {}
        found: dict[str, BatchJob | Pod] = {}
        for member in everyone:
            if key in member.options:
                found.setdefault(member.options[key], member)
        return dict(zip(found, self.titles(found.values()), strict=True)) if found else {}

    def titles(self, some: Iterable[BatchJob | Pod]) -> list[str]:
        """Return the members' names for messages. If the gang has members of several kinds, put the kind before each
        name, because members of different kinds may have the same name."""
        several = len({_kind_of(one) for one in self.everyone}) > 1
        return [f"{_kind_of(one)} {one.name}" if several else one.name for one in some]


def _kind_of(member: BatchJob | Pod) -> str:
    return member.adapter.kind.name if isinstance(member, BatchJob) else PODS.name


def pods_by_role(pods: Sequence[Pod]) -> Mapping[str, int]:
    """Return the number of pods for each role label."""
    return Counter(pod.options.get(labels.ROLE, "") for pod in pods)


def number_of(members: GangMembers, key: str) -> int | None:
    """Return the number in the option `key`; None if no member sets it. Raises GangSpecError."""
    text = single_value(members, key, "")
    return read_count(text, key, members.options(key)[text]) if text else None


def read_count(text: str, key: str, who: str) -> int:
    """Parse `text` as a number of at least 1. `text` is the value of the option `key` of the object `who`. Raises
    GangSpecError."""
    if (number := labels.whole_number(text, 1)) is None:
        raise GangSpecError(f'{who} sets {key} to {text[:60]!r}, not a number of at least 1: write for instance "4"')
    return number
