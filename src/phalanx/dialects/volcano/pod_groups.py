"""Find the gang of a pod, and read the settings of the gang from its PodGroup.

The pods of a PodGroup form a gang. `minMember` of these pods must exist before the scheduler binds the first one. If
`minResources` exceeds the requests of the existing pods, the difference is reserved for later pods (for example for
Spark's executors, which the driver creates when it runs). If a pod itself names a queue, that queue takes precedence
over the queue of the PodGroup. For a Volcano Job, Volcano's controller creates the PodGroup and sets `minMember` to the
Job's `minAvailable`.

Source: staging/src/volcano.sh/apis/pkg/apis/scheduling/v1beta1/{types,labels}.go of v1.15.1.

`moved` lists the Phalanx equivalent of each object of a cluster with Volcano. The list helps users to plan a migration.
It includes the actions and plugins in the ConfigMap of Volcano's scheduler, each with its equivalent, or with the
reason why it has no equivalent."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

import msgspec

from phalanx.client.moment import created_s
from phalanx.dialects.frame.dialect import Claim, GroupClaim, Object, Objects, RoleClaim, Said, no_pod_group
from phalanx.dialects.frame.moved import Moved
from phalanx.dialects.schema.fields import Fields, Misread
from phalanx.dialects.volcano import kinds
from phalanx.dialects.volcano.definitions.configuration import text_of
from phalanx.dialects.volcano.definitions.hyper_nodes import HyperNodes, level
from phalanx.dialects.volcano.definitions.queues import QUEUE_NAME, VolcanoDefinitions, read_queue
from phalanx.dialects.volcano.kinds import SCHEDULER_NAME
from phalanx.dialects.volcano.settings import told
from phalanx.dialects.volcano.tables import TABLES, notes
from phalanx.model.pod import PODS
from phalanx.model.queue import Bounds
from phalanx.model.reason import Reason, ReasonCode

_OURS = "phalanx.dev/"
_QUEUE, _JOB, _ROLE, _PREEMPTIBLE = (f"{_OURS}{word}" for word in ("queue", "job", "role", "preemptible"))
_GROUP_NAMES: Final = ("scheduling.k8s.io/group-name", "scheduling.volcano.sh/group-name")
_TASK: Final = "volcano.sh/task-spec"
_CLOSE, _RATHER_CLOSE, _SUBGROUPS = (f"{_OURS}{word}" for word in ("closeness", "preferred-closeness", "subgroups"))
_ALIGNMENT: Final = f"{_OURS}numa-alignment"
_CLOSENESS: Final = frozenset({_CLOSE, _RATHER_CLOSE})
_GROUP_WORDS: Final = {_CLOSE: "closeness", _RATHER_CLOSE: "preferredCloseness"}  # keys of `_SUBGROUPS`
_PREEMPTABLE: Final = "volcano.sh/preemptable"
_NUMA: Final = "volcano.sh/numa-topology-policy"
_ALIGNED: Final = frozenset({"single-numa-node", "restricted", "best-effort"})
_WORDS: Final = frozenset({*_GROUP_NAMES, QUEUE_NAME, _TASK, _PREEMPTABLE, _NUMA})
# The labels of Volcano have an effect on pods with these scheduler names; pods of other schedulers belong to other
# dialects.
_SCHEDULERS: Final = frozenset({kinds.SCHEDULER_NAME, "phalanx", "default-scheduler"})
_QUOTA_NAMES: Final = ("count/", "requests.", "limits.")  # prefixes that Volcano's controllers add to minResources
_NOTHING: Mapping[str, str] = {}
_MARK: Final = "podgroup:"  # a prefix that cannot occur in the name of a Job or pod
PARTITION: Final = "volcano.sh/partition-id"  # a label: the pods of one task that have the same value form a partition
_PARTITIONS: Final = "volcano/partition/"  # options of a pod: the role of its partition, and the task of this role
_SPARED: Final = "volcano/spared"  # an option of a pod: the gang of its PodGroup may not be preempted
_SYSTEM: Final = "kube-system"
_CRITICAL: Final = 2_000_000_000  # the priority of system-cluster-critical; system-node-critical is above it
OBJECT: Final = "volcano/pod-group"  # the option with the name of a pod's PodGroup


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkTopology:
    """A topology request: all pods must be in one HyperNode of a low tier. `soft`: True if the request is only a
    preference. `highest`: the number of the highest tier that this HyperNode may have. `highest_name`: the name of that
    tier, if the request names it. A hard request with neither `highest` nor `highest_name` has no effect, as in
    Volcano."""

    soft: bool = False
    highest: int | None = None
    highest_name: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class SubGroups:
    """The partitions of a task. `size`: the number of pods of a partition. `minimum`: the number of partitions that
    must start together. `topology`: the topology request for each partition."""

    task: str
    size: int = 1
    minimum: int = 0
    topology: NetworkTopology | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PodGroup:
    """A PodGroup. `minimum`: its minMember. `tasks`: for each task, the number of its pods that must exist. This is
    required in addition to `minimum`, which counts the pods of all tasks. `whole`: its minResources."""

    queue: str = kinds.DEFAULT
    minimum: int = 1
    tasks: tuple[tuple[str, int], ...] = ()
    whole: Bounds = ()
    priority_class: str = ""
    topology: NetworkTopology | None = None
    subgroups: tuple[SubGroups, ...] = ()


def options_of(meta: Mapping[str, Any], scheduler: str) -> Mapping[str, str]:
    """Return the Phalanx options of a pod; empty if the pod has no labels or annotations of Volcano. As in Volcano,
    annotations take precedence over labels."""
    labels, annotations = meta.get("labels") or _NOTHING, meta.get("annotations") or _NOTHING
    if _WORDS.isdisjoint(annotations) and _WORDS.isdisjoint(labels):  # this is true for nearly every pod
        return _NOTHING
    if scheduler not in _SCHEDULERS or _JOB in labels or _JOB in annotations:
        return _NOTHING
    both = {**labels, **annotations}
    group, queue = both.get(_GROUP_NAMES[0]) or both.get(_GROUP_NAMES[1]) or "", both.get(QUEUE_NAME) or ""
    task, partition = str(both.get(_TASK) or ""), str(labels.get(PARTITION) or "")
    role = f"{task}/{partition}" if task and partition else task
    aligned = "preferred" if annotations.get(_NUMA) in _ALIGNED else ""
    found = {_ROLE: role, _PREEMPTIBLE: both.get(_PREEMPTABLE), _ALIGNMENT: aligned}
    if role != task:
        found[f"{_PARTITIONS}{role}"] = task
    if group or queue:
        found[_QUEUE] = kinds.said_queue(str(queue))
    if group:  # if one pod must not be preempted, the whole gang is protected
        spared = "true" if str(found.pop(_PREEMPTIBLE) or "").lower() == "false" else ""
        found |= {_JOB: f"{_MARK}{group}", OBJECT: group, _SPARED: spared}
    return {key: str(value) for key, value in found.items() if value}


def claim(defined: VolcanoDefinitions, said: Said, objects: Objects) -> Claim | None:
    """Return the settings of a gang from its PodGroup. A gang without a PodGroup gets settings too if it names a
    Volcano Queue, so that its usage counts in this Queue. Return None for all other gangs."""
    found = _claim(defined, said, objects)
    if found is None or found.queue != kinds.tree_name(kinds.DEFAULT):
        return found
    return replace(found, queues=defined.standing)


def _claim(defined: VolcanoDefinitions, said: Said, objects: Objects) -> Claim | None:
    queue = kinds.queue_said(said.queue)
    if (name := said.options.get(OBJECT)) is None:
        if queue is None and (said.queue == kinds.DEFAULT or said.queue not in defined.names):
            return None
        return Claim(queue=said.queue if queue is None else kinds.tree_name(queue), options=_sparing(said))
    own = kinds.tree_name(queue) if queue else ""  # the queue that the pods name
    found = objects.get(kinds.POD_GROUPS, {}).get(f"{said.namespace}/{name}")
    if found is None:
        return Claim(queue=own, blocked=no_pod_group(name))
    try:
        group = read_pod_group(found.get("spec") or {})
    except Misread as error:
        text = f"the PodGroup {name}: {error}"
        return Claim(queue=own, blocked=Reason(code=ReasonCode.INVALID, text=text))
    try:
        queue_of_group = defined.queue_of(said.namespace, group.queue)
        options = dict(closeness(defined.hyper_nodes, group.topology))
        groups, roles = _partitions(defined.hyper_nodes, group, said.options)
    except LookupError as error:
        return Claim(queue=own or queue_of_group, blocked=Reason(code=ReasonCode.INVALID, text=str(error.args[0])))
    if not _CLOSENESS.isdisjoint(said.options):  # topology options of the pods take precedence over the PodGroup's
        options = {}
    options |= _sparing(said)
    if groups:
        options[_SUBGROUPS] = msgspec.json.encode(groups).decode()
    return Claim(
        queue=said.queue if queue is None else own or queue_of_group,
        options=options,
        roles=roles,
        priority=defined.priorities.get(group.priority_class, defined.usual_priority),
        submitted_s=created_s(found),
        group=GroupClaim(
            minimum=group.minimum,
            by_priority=defined.by_priority,
            of_role={} if roles else dict(group.tasks),
            whole={resource: amount for resource, amount in group.whole if resource != PODS},
        ),
    )


def _sparing(said: Said) -> Mapping[str, str]:
    """Return the option that protects a gang from preemption; empty if the gang is not protected. It is protected if a
    label of one of its pods forbids preemption, or if its pods belong to the system (as in Volcano's plugin
    conformance). Phalanx's label `preemptible` takes precedence."""
    system = said.namespace == _SYSTEM or said.priority >= _CRITICAL
    return {_PREEMPTIBLE: "false"} if (system or _SPARED in said.options) and _PREEMPTIBLE not in said.options else {}


def closeness(hyper_nodes: HyperNodes, asked: NetworkTopology | None) -> Mapping[str, str]:
    """Return the Phalanx options of a topology request. Raise LookupError if no HyperNode has the requested tier
    name."""
    if asked is None:
        return _NOTHING
    if asked.soft:
        lowest = hyper_nodes.allowed(None)
        return {_RATHER_CLOSE: lowest} if lowest else _NOTHING
    highest = asked.highest
    if asked.highest_name and (highest := hyper_nodes.tier_named(asked.highest_name)) is None:
        raise LookupError(f"no HyperNode has the tierName {asked.highest_name}: create one, or name another")
    return _NOTHING if highest is None else {_CLOSE: hyper_nodes.allowed(highest)}


def gang_of(group: Object) -> str:
    """Return the id of the gang that a PodGroup's pods form."""
    meta = group.get("metadata") or {}
    return f"{meta.get('namespace')}/{_MARK}{meta.get('name')}"


def read_pod_group(spec: object) -> PodGroup:
    """Return the settings in a PodGroup's spec. Raise Misread if a field is invalid."""
    said = Fields(spec, ("spec",))
    tasks, minimum = said.weights("minTaskMember"), max(1, said.whole("minMember", 1))
    counted = minimum >= sum(count for _, count in tasks)
    return PodGroup(
        queue=said.text("queue") or kinds.DEFAULT,
        minimum=minimum,
        tasks=tuple((task, int(count)) for task, count in tasks if count >= 1 and counted),
        whole=tuple(
            (name, amount) for name, amount in said.amounts("minResources") if not name.startswith(_QUOTA_NAMES)
        ),
        priority_class=said.text("priorityClassName"),
        topology=_topology(said),
        subgroups=tuple(_subgroups(one) for one in said.each("subGroupPolicy")),
    )


def _partitions(
    hyper_nodes: HyperNodes, group: PodGroup, options: Mapping[str, str]
) -> tuple[list[Object], dict[str, RoleClaim]]:
    """Return the groups and roles of a gang with partitions. Each partition that has a pod becomes one group and one
    role. Raise LookupError if no HyperNode has a requested tier name."""
    by_task: dict[str, list[str]] = {}
    for key in sorted(options):
        if key.startswith(_PARTITIONS):
            by_task.setdefault(options[key], []).append(key.removeprefix(_PARTITIONS))
    if not by_task:
        return [], {}
    minimums, policies = dict(group.tasks), {one.task: one for one in group.subgroups}
    roles = {task: RoleClaim(minimum=minimum) for task, minimum in minimums.items() if task not in by_task}
    groups: list[Object] = []
    for task, partitions in by_task.items():
        policy = policies.get(task, SubGroups(task=task))
        fewest = max(policy.minimum, -(-minimums.get(task, 0) // policy.size))
        groups.append({"name": task, "minimum": min(fewest, len(partitions))})
        near = closeness(hyper_nodes, policy.topology)
        said = {word: near[key] for key, word in _GROUP_WORDS.items() if key in near}
        for name in partitions:
            groups.append({"name": name, "parent": task, **said})
            roles[name] = RoleClaim(minimum=policy.size, group=name)
    return groups, roles


def _subgroups(said: Fields) -> SubGroups:
    selector = said.fields("labelSelector").values.get("matchLabels") or {}
    return SubGroups(
        task=str(selector.get(_TASK) or ""),
        size=max(1, said.whole("subGroupSize", 1)),
        minimum=said.whole("minSubGroups"),
        topology=_topology(said),
    )


def _topology(around: Fields) -> NetworkTopology | None:
    if not around.values.get("networkTopology"):
        return None
    said = around.fields("networkTopology")
    return NetworkTopology(
        soft=said.text("mode") == "soft",
        highest=said.whole_or_none("highestTierAllowed"),
        highest_name=said.text("highestTierName"),
    )


STEPS = (
    "stop Volcano's scheduler, because it must not run at the same time as Phalanx: "
    "`kubectl -n volcano-system scale deployment volcano-scheduler --replicas=0`",
    "on a cluster, keep Volcano's controllers, which create the pods and PodGroups of Volcano Jobs; `phalanx up` has "
    "controllers of its own for this",
    "keep Volcano's webhooks as long as Volcano's admission service runs; otherwise delete their configurations",
    "start `phalanx scheduler --dialect volcano` (docs/guide/deploy.md), or apply the objects to a `phalanx up`",
    "running pods continue and are charged to their queues; waiting pods are queued without a change",
    "check the result with `phalanx queues` and `kubectl get podgroups.scheduling.volcano.sh -A`",
)
_GROUP = ".volcano.sh/"


def moved(objects: Iterable[Object]) -> tuple[Moved, ...]:
    """Return the equivalents of the objects in the order of the objects. Objects that have nothing to do with Volcano
    are left out."""
    found = (_moved(obj) for obj in objects if isinstance(obj.get("metadata"), Mapping))
    return tuple(one for one in found if one is not None)


def _moved(obj: Object) -> Moved | None:
    kind, meta = str(obj.get("kind")), obj["metadata"]
    name = f"{kind} {meta.get('name') or meta.get('generateName')}"
    if kind == "ConfigMap":
        text = text_of(obj)
        return None if text is None else Moved(object=name, becomes="these settings", notes=tuple(told(text)))
    if _GROUP in str(obj.get("apiVersion", "")):
        if kind not in TABLES:
            return Moved(object=name, becomes="nothing", notes=("this kind is unknown to Phalanx",))
        said = tuple(notes(kind, obj))
        try:
            return Moved(object=name, becomes=_becomes(kind, obj), notes=said)
        except Misread as error:
            return Moved(object=name, becomes="nothing, because it is invalid", notes=(str(error), *said))
    spec = obj.get("spec") or {}
    pod = (spec.get("template") or {}).get("spec") or spec
    if isinstance(pod, Mapping) and pod.get("schedulerName") == SCHEDULER_NAME:
        return Moved(object=name, becomes="pods that Phalanx schedules unchanged", notes=tuple(notes(kind, obj)))
    return None


def _becomes(kind: str, obj: Object) -> str:
    spec, name = obj.get("spec") or {}, str(obj["metadata"].get("name"))
    match kind:
        case "Queue":
            queue = read_queue(name, spec, str((obj.get("status") or {}).get("state") or ""))
            return f"the queue {name}" + (f" below {queue.parent}" if queue.parent else "") + f", {queue.state}"
        case "PodGroup":
            group = read_pod_group(spec)
            return f"a gang of at least {group.minimum} in the queue {group.queue}"
        case "Job":
            return f"runs unchanged, in the queue {spec.get('queue') or 'default'}"
        case "HyperNode":
            return f"a domain of the level {level(int(spec.get('tier') or 0))}"
        case "Numatopology":
            return f"the NUMA zones of the node {name}"
        case "JobFlow" | "JobTemplate" | "CronJob" | "Command":
            return "runs unchanged on `phalanx up`; on a cluster Volcano's controllers run it"
    return "nothing"
