"""Volcano's PodGroup and Queue (`scheduling.volcano.sh/v1beta1`), and what its users write on pods, in our nouns.

A PodGroup is a gang whose pods exist by themselves: `minMember` of them must be there before any is bound, and what
`minResources` asks beyond them is held for pods that are still to come (Spark's executors, which their driver creates
when it runs). `report` gives a gang's life back as the status that Volcano's tools read.

Sources: staging/src/volcano.sh/apis/pkg/apis/scheduling/v1beta1/{types,labels}.go; the meaning of `deserved` and
`guarantee` is that of the plug-in capacity.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from phalanx.dialects.fields import LONGEST_S, Fields
from phalanx.dialects.peer_reasons import PEERS
from phalanx.model.queue import Bounds, Queue, QueuePreemption, QueueState, Quota, ReclaimWithinCohort
from phalanx.model.reason import Reason

SCHEDULER_NAME = "volcano"
GROUP_VERSION = "scheduling.volcano.sh/v1beta1"
ROOT = "root"
_GROUP_NAMES = ("scheduling.k8s.io/group-name", "scheduling.volcano.sh/group-name")
_QUEUE_NAME = "scheduling.volcano.sh/queue-name"
_TASK = "volcano.sh/task-spec"
_PREEMPTABLE = "volcano.sh/preemptable"
_WORDS = frozenset({*_GROUP_NAMES, _QUEUE_NAME, _TASK, _PREEMPTABLE})
_QUOTA_NAMES = ("count/", "requests.", "limits.")  # its controllers write these beside the resources themselves
_STATES = {"Closed": QueueState.CLOSED, "Closing": QueueState.CLOSED}


# --- reading ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class PodGroup:
    """`tasks`: how many pods of each task must be there besides. `whole`: what all of it needs."""

    queue: str = "default"
    minimum: int = 1
    tasks: tuple[tuple[str, int], ...] = ()
    whole: Bounds = ()
    priority_class: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class PodSays:
    """What a pod says in Volcano's words; empty: nothing."""

    group: str = ""
    queue: str = ""
    task: str = ""
    preemptible: str = ""


SILENT = PodSays()


def read_pod_group(spec: Any) -> PodGroup:
    """Raises Misread."""
    said = Fields(spec, ("spec",))
    tasks, minimum = said.weights("minTaskMember"), max(1, said.whole("minMember", 1))
    counted = minimum >= sum(count for _, count in tasks)
    return PodGroup(
        queue=said.text("queue") or "default",
        minimum=minimum,
        tasks=tuple((task, int(count)) for task, count in tasks if count >= 1 and counted),
        whole=tuple(
            (name, amount) for name, amount in said.amounts("minResources") if not name.startswith(_QUOTA_NAMES)
        ),
        priority_class=said.text("priorityClassName"),
    )


def read_pod(meta: Mapping[str, Any]) -> PodSays:
    """From a pod's metadata; annotations count before labels, as Volcano reads them. Done for each pod of ours."""
    labels, annotations = meta.get("labels") or {}, meta.get("annotations") or {}
    if _WORDS.isdisjoint(annotations) and _WORDS.isdisjoint(labels):
        return SILENT
    both = {**labels, **annotations}
    return PodSays(
        group=str(both.get(_GROUP_NAMES[0]) or both.get(_GROUP_NAMES[1]) or ""),
        queue=str(both.get(_QUEUE_NAME) or ""),
        task=str(both.get(_TASK) or ""),
        preemptible=str(both.get(_PREEMPTABLE) or ""),
    )


def read_queue(name: str, spec: Any, state: str = "") -> Queue:
    """Return the queue. `state`: that of its status. Raises Misread."""
    said = Fields(spec, ("spec",))
    parent, quota = said.text("parent"), _quota(said)
    protected = not said.flag("reclaimable", True)
    return Queue(
        name=name,
        parent="" if parent == ROOT else parent,
        quotas=(quota,) if quota != Quota() else (),
        weight=float(said.whole("weight", 1, least=0)) or 1.0,
        priority=said.whole("priority"),
        strict=said.text("dequeueStrategy") == "fifo",
        preemption=QueuePreemption(
            reclaim=ReclaimWithinCohort.ANY if quota.guaranteed else ReclaimWithinCohort.NEVER,
            min_run_s=LONGEST_S if protected else 0.0,
        ),
        state=_STATES.get(state, QueueState.OPEN),
    )


def _quota(said: Fields) -> Quota:
    """Theirs by right is the larger of both; what the guarantee has of it, nobody borrows."""
    deserved, guarantee = dict(said.amounts("deserved")), dict(said.fields("guarantee").amounts("resource"))
    own = {name: max(deserved.get(name, 0), guarantee.get(name, 0)) for name in deserved.keys() | guarantee.keys()}
    kept = {name: own[name] - amount for name, amount in guarantee.items()}
    return Quota(
        guaranteed=tuple(sorted(own.items())), limit=said.amounts("capability"), lend=tuple(sorted(kept.items()))
    )


# --- reporting --------------------------------------------------------------------------------------------------------


class Phase(StrEnum):
    """Of a PodGroup. INQUEUE: it was decided to start it. COMPLETED: all its pods have ended, well or not. UNKNOWN:
    some of its pods run, and it cannot be scheduled."""

    PENDING = "Pending"
    INQUEUE = "Inqueue"
    RUNNING = "Running"
    COMPLETED = "Completed"
    UNKNOWN = "Unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """A gang's life as its PodGroup tells it. `reason`: why it waits. `lacking`: so many of its `pods` it still
    needs to have a node."""

    phase: Phase
    pods: int = 0
    lacking: int = 0
    running: int = 0
    succeeded: int = 0
    failed: int = 0
    reason: Reason | None = None


def report(told: Told, old: Mapping[str, Any], now: str) -> dict[str, Any]:
    """The status of the PodGroup, whose status was `old`; `now` as a metav1.Time."""
    status: dict[str, Any] = {"phase": str(told.phase)}
    counts = {"running": told.running, "succeeded": told.succeeded, "failed": told.failed}
    status |= {name: count for name, count in counts.items() if count}
    if conditions := list(_conditions(told, old.get("conditions") or (), now)):
        status["conditions"] = conditions
    return status


def _conditions(told: Told, old: Sequence[Mapping[str, Any]], now: str) -> Iterator[dict[str, Any]]:
    """Return the conditions, one of a type. What was said of another type stays, as there: the newest counts."""
    said = {}
    if told.phase in (Phase.PENDING, Phase.UNKNOWN) and told.reason is not None:
        word = PEERS[told.reason.code].volcano
        reason = word if isinstance(word, str) else str(told.reason.code)
        text = f"{told.lacking}/{told.pods} tasks in gang unschedulable: {told.reason.code}: {told.reason.text}"
        said["Unschedulable"] = (reason, text)
    if told.phase in (Phase.RUNNING, Phase.COMPLETED):
        said["Scheduled"] = ("tasks in gang are ready to be scheduled", "")
    yield from (dict(one) for one in old if one.get("type") not in said)
    for kind, (reason, message) in said.items():
        yield _condition(kind, reason, message, old, now)


def _condition(kind: str, reason: str, message: str, old: Sequence[Mapping[str, Any]], now: str) -> dict[str, Any]:
    """Since when is kept while it says the same."""
    before = next((one for one in old if one.get("type") == kind and one.get("reason") == reason), None)
    since = (before or {}).get("lastTransitionTime") or now
    return {"type": kind, "status": "True", "reason": reason, "message": message, "lastTransitionTime": since}
