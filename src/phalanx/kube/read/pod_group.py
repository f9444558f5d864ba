"""Volcano's PodGroups: what each says in our words, which pods are whose, and what each is to be told.

A pod belongs to the PodGroup that its annotation names, and to the gang of that; `PodGroup` is what `gang_spec` reads
of it. Nothing here costs anything where no pod has such an annotation.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from phalanx.client.connection import Object
from phalanx.client.informer import Change
from phalanx.client.kind import Kind
from phalanx.dialects.fields import Misread
from phalanx.dialects.volcano.reader import GROUP_VERSION, Phase, Told, read_pod_group
from phalanx.kube.read.pod import Pod
from phalanx.model.pod import PODS
from phalanx.model.reason import Reason

log = logging.getLogger(__name__)

_GROUP, _, _VERSION = GROUP_VERSION.partition("/")
POD_GROUPS = Kind(group=_GROUP, version=_VERSION, plural="podgroups", name="PodGroup")
_MARK = "podgroup:"  # no Job and no pod has such a name
NO_TASKS: Mapping[str, int] = {}


@dataclass(frozen=True, slots=True, kw_only=True)
class PodGroup:
    """`tasks` and `whole` as in `dialects.volcano.PodGroup`. `fault`: what of it cannot be read."""

    name: str
    queue: str = ""
    minimum: int = 1
    tasks: Mapping[str, int] = field(default_factory=dict)
    whole: Mapping[str, int] = field(default_factory=dict)
    priority: int = 0
    fault: str = ""


def pod_group_gang(namespace: str, name: str) -> str:
    """Return the gang of a PodGroup's pods."""
    return f"{namespace}/{_MARK}{name}"


def pod_group_key(gang: str) -> str:
    """Return the PodGroup, as caches name it."""
    return gang.replace(f"/{_MARK}", "/", 1)


class PodGroupCache:
    """`priority`: the value of a PriorityClass. `news` is set when some group may have something else to be told."""

    def __init__(self, priority: Callable[[str], int]) -> None:
        self.news = asyncio.Event()
        self._priority = priority
        self._known: dict[str, PodGroup] = {}  # by gang
        self._pods: dict[str, dict[str, Pod]] = {}  # of each gang, by uid
        self._reasons: dict[str, Reason] = {}
        self._touched: dict[str, None] = {}

    def __getitem__(self, gang: str) -> PodGroup | None:
        return self._known.get(gang)

    def on_change(self, change: Change) -> str:
        """Take the change in; return the gang that it is about."""
        obj = change.new or change.old
        assert obj is not None
        gang = pod_group_gang(obj["metadata"]["namespace"], obj["metadata"]["name"])
        if change.new is None:
            self._known.pop(gang, None)
            self._reasons.pop(gang, None)
        elif change.old is None or gang not in self._known or change.old.get("spec") != change.new.get("spec"):
            self._known[gang] = self._read(change.new)
            self.touch(gang)
        return gang

    def _read(self, obj: Object) -> PodGroup:
        meta = obj["metadata"]
        try:
            said = read_pod_group(obj.get("spec") or {})
        except Misread as error:
            return PodGroup(name=meta["name"], fault=str(error))
        return PodGroup(
            name=meta["name"],
            queue=said.queue,
            minimum=said.minimum,
            tasks=dict(said.tasks),
            whole={name: amount for name, amount in said.whole if name != PODS},
            priority=self._priority(said.priority_class) if said.priority_class else 0,
        )

    # --- what becomes of it -----------------------------------------------------------------------------------------

    def see(self, pod: Pod) -> None:
        gang = pod_group_gang(pod.namespace, pod.group)
        self._pods.setdefault(gang, {})[pod.uid] = pod
        self.touch(gang)

    def lose(self, pod: Pod) -> None:
        gang = pod_group_gang(pod.namespace, pod.group)
        there = self._pods.get(gang, {})
        there.pop(pod.uid, None)
        if not there:
            self._pods.pop(gang, None)
        self.touch(gang)

    def waits(self, gang: str, reason: Reason) -> None:
        if gang in self._known:
            self._reasons[gang] = reason
            self.touch(gang)

    def touch(self, gang: str) -> None:
        self._touched[gang] = None
        self.news.set()

    def touched(self) -> Iterator[str]:
        """Gangs about whose group something may have changed since the last time."""
        self.news.clear()
        found, self._touched = self._touched, {}
        return (gang for gang in found if gang in self._known)

    def told(self, gang: str, phase: Phase) -> Told:
        """Return what its PodGroup is to say; `phase`: of its gang, as long as not all of its pods are over."""
        pods = list(self._pods.get(gang, {}).values())
        running, succeeded, failed = (
            sum(pod.phase == name for pod in pods) for name in ("Running", "Succeeded", "Failed")
        )
        group = self._known.get(gang)
        minimum, placed = (group.minimum if group is not None else 1), sum(pod.charged or pod.over for pod in pods)
        reason = self._reasons.get(gang) if phase is Phase.PENDING else None
        if pods and succeeded + failed == len(pods) >= minimum:
            phase, reason = Phase.COMPLETED, None
        elif placed >= minimum:
            phase, reason = Phase.RUNNING, None
        elif running and reason is not None:
            phase = Phase.UNKNOWN
        return Told(
            phase=phase,
            pods=len(pods),
            lacking=max(0, minimum - placed),
            running=running,
            succeeded=succeeded,
            failed=failed,
            reason=reason,
        )
