"""Volcano's PodGroup and Queue (`scheduling.volcano.sh/v1beta1`), and what its users write on pods, in our nouns.

A PodGroup is a gang whose pods exist by themselves: `minMember` of them must be there before any is bound, and what
`minResources` asks beyond them is held for pods that are still to come (Spark's executors, which their driver creates
when it runs). `TABLE` says of every field what it becomes, or why nothing; fields that it does not know come back as
notes, and so do those that are ignored. `report` gives a gang's life back as the status that Volcano's tools read.

Sources: staging/src/volcano.sh/apis/pkg/apis/scheduling/v1beta1/{types,labels}.go; the meaning of `deserved` and
`guarantee` is that of the plug-in capacity.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from phalanx.dialects.fields import LONGEST_S, Fields
from phalanx.dialects.peer_reasons import PEERS, Ignored
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


@dataclass(frozen=True, slots=True)
class Becomes:
    """`field` of our model has it; `how`: with what difference, if any."""

    field: str
    how: str = ""


Use = Becomes | Ignored

_HYPERNODES = Ignored("there are no HyperNodes here: write phalanx.dev/closeness, which names a label of nodes")
_CLUSTERS = Ignored("one scheduler serves one cluster here")
POD_GROUP: Mapping[str, Use] = {
    "spec.minMember": Becomes("Role.minimum", "so many pods must exist, and are bound together; none or 0 means 1"),
    "spec.minTaskMember": Becomes(
        "Role.minimum",
        "of the role that the pods' annotation volcano.sh/task-spec names, if minMember is at least the sum of these",
    ),
    "spec.minResources": Becomes("Role (held)", "what the pods that exist do not ask of it is held for those to come"),
    "spec.queue": Becomes("Job.queue", "`default` if none is named"),
    "spec.priorityClassName": Becomes("Job.priority", "the highest of this and the pods' own"),
    "spec.networkTopology": _HYPERNODES,
    "spec.subGroupPolicy": _HYPERNODES,
}
QUEUE: Mapping[str, Use] = {
    "spec.weight": Becomes("Queue.weight"),
    "spec.capability": Becomes("Quota.limit"),
    "spec.deserved": Becomes("Quota.guaranteed", "its jobs reclaim what others borrowed of it"),
    "spec.guarantee.resource": Becomes("Quota.lend", "so much of what is guaranteed is never lent"),
    "spec.reclaimable": Becomes("Preemption.min_run_s", "`false`: nobody preempts its jobs, its own included"),
    "spec.parent": Becomes("Queue.parent", "`root` is the unnamed root"),
    "spec.priority": Becomes("Queue.priority"),
    "spec.dequeueStrategy": Becomes("Queue.strict", "`fifo`: its first job holds up the others"),
    "spec.affinity": Ignored("node groups are flavors here: write a phalanx.dev Queue with quotas by flavor"),
    "spec.type": _CLUSTERS,
    "spec.extendClusters": _CLUSTERS,
    "status.state": Becomes("Queue.state", "`Closing` and `Closed` start nothing; what runs goes on"),
}
POD: Mapping[str, Use] = {
    _GROUP_NAMES[0]: Becomes("Job.id", "the gang of the PodGroup of that name; it waits until there is one"),
    _GROUP_NAMES[1]: Becomes("Job.id", "the same"),
    _QUEUE_NAME: Becomes("Job.queue", "of pods without a PodGroup"),
    _TASK: Becomes("Role.name"),
    _PREEMPTABLE: Becomes("Job.preemptible", "without it, as the queue says"),
    "scheduling.volcano.sh/group-min-member": Ignored("it is for the controller that makes PodGroups of owners"),
    "volcano.sh/jdb-min-available": Ignored("write a PodDisruptionBudget, which is kept"),
    "volcano.sh/jdb-max-unavailable": Ignored("write a PodDisruptionBudget, which is kept"),
    "volcano.sh/cooldown-time": Ignored("queues say how long a job is spared: preemption.minRun"),
    "volcano.sh/revocable-zone": Ignored("reservations set nodes aside for a time"),
    "volcano.sh/numa-topology-policy": Ignored("zones of nodes are looked at without being asked to"),
    "volcano.sh/sla-waiting-time": Ignored("backfill gives whoever waits longest a reservation"),
}
TABLE: Mapping[str, Mapping[str, Use]] = {"PodGroup": POD_GROUP, "Queue": QUEUE, "Pod (labels, annotations)": POD}


# --- reading ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class PodGroup:
    """`tasks`: how many pods of each task must be there besides. `whole`: what all of it needs. `notes`: what of it has
    no effect, and why."""

    queue: str = "default"
    minimum: int = 1
    tasks: tuple[tuple[str, int], ...] = ()
    whole: Bounds = ()
    priority_class: str = ""
    notes: tuple[str, ...] = ()


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
        notes=tuple(notes(said.values, POD_GROUP)),
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


def read_queue(name: str, spec: Any, state: str = "") -> tuple[Queue, tuple[str, ...]]:
    """The queue, and notes. `state`: that of its status. Raises Misread."""
    said = Fields(spec, ("spec",))
    parent, quota = said.text("parent"), _quota(said)
    protected = not said.flag("reclaimable", True)
    queue = Queue(
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
    return queue, tuple(notes(said.values, QUEUE))


def _quota(said: Fields) -> Quota:
    """Theirs by right is the larger of both; what the guarantee has of it, nobody borrows."""
    deserved, guarantee = dict(said.amounts("deserved")), dict(said.fields("guarantee").amounts("resource"))
    own = {name: max(deserved.get(name, 0), guarantee.get(name, 0)) for name in deserved.keys() | guarantee.keys()}
    kept = {name: own[name] - amount for name, amount in guarantee.items()}
    return Quota(
        guaranteed=tuple(sorted(own.items())), limit=said.amounts("capability"), lend=tuple(sorted(kept.items()))
    )


def notes(values: Mapping[str, Any], table: Mapping[str, Use], path: str = "spec") -> Iterator[str]:
    """What of `values` has no effect here."""
    for name, value in values.items():
        here = f"{path}.{name}"
        match table.get(here):
            case Becomes():
                pass
            case Ignored(why):
                yield f"{here} has no effect: {why}"
            case None if isinstance(value, Mapping) and any(known.startswith(f"{here}.") for known in table):
                yield from notes(value, table, here)
            case None:
                yield f"{here} is not known here, and has no effect"


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
    """One of a type. What was said of another type stays, as there: the newest counts."""
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
