"""Translate KAI's Queues to queues of Phalanx's queue tree, and read KAI's PriorityClasses and Topologies.

- A queue with the quota -1 is guaranteed every amount up to its limit and up to the quotas of the queues above. A queue
  with the limit -1 has no limit. A queue with the limit 0 or without a limit admits no pods.
- Memory is in megabytes of 10^6 bytes, cpu in millicores, gpu in devices.
- A queue whose weights are 0 reclaims resources only up to its quota.
- A queue has two minimum runtimes. A job cannot be preempted before the longer one has passed. A queue without these
  settings inherits them from the queues above.
- A queue whose parent does not exist is left out, together with all queues below it.
- All queues without a parent become children of the queue `ROOT`, which divides the cluster among them.
- The quotas of child queues may exceed the quota of their parent. The scheduler checks each level separately, from the
  job's queue up.
- Consolidation (moving running pods to make room) is off by default: a moved pod is evicted first, and a pod without an
  owner is not created again. An annotation on a queue turns consolidation on for this queue and the queues below.


Sources: pkg/apis/scheduling/v2/queue_types.go, pkg/scheduler/plugins/{proportion,minruntime} of v0.17.0.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from math import ceil
from typing import Any, Final

from phalanx.client.kind import PRIORITY_CLASSES
from phalanx.dialects.frame.dialect import Definitions, Object, Objects
from phalanx.dialects.kai import kinds
from phalanx.dialects.schema.fields import Misread, duration_s
from phalanx.model.pod import MAX_AMOUNT
from phalanx.model.queue import (
    BorrowingPolicy,
    Bounds,
    Queue,
    QueueOrder,
    QueuePreemption,
    Quota,
    ReclaimFloor,
    ReclaimWithinCohort,
    WithinQueue,
)

GPU: Final = "nvidia.com/gpu"
# KAI's resource name -> (resource, Phalanx units per KAI unit)
RESOURCES: Final[Mapping[str, tuple[str, int]]] = {"cpu": ("cpu", 1), "memory": ("memory", 10**6), "gpu": (GPU, 1)}
UNLIMITED: Final = -1
_TOO_MUCH: Final = 2 * MAX_AMOUNT  # larger values are reduced to this value, which is then reported as too large
CONSOLIDATE: Final = "phalanx.dev/consolidate"  # annotation of a queue, "true" or "false"
ROOT: Final = "kai-scheduler/queues"  # the queue above all Queues; no Queue has this name
PRIORITY: Final = 100  # the default priority of a queue
# The PriorityClasses of KAI's installation. They have these values even if the objects do not exist.
CLASSES: Final[Mapping[str, int]] = {"train": 50, "build-preemptible": 75, "build": 100, "inference": 125}


@dataclass(frozen=True, slots=True, kw_only=True)
class KaiQueue:
    """A Queue. `above`: the queues above it, nearest first. `fault`: why its jobs are not scheduled; empty if they are
    scheduled. `lost`: True if a queue above it does not exist, so that this queue is not in the tree. `deserved`,
    `limits`: the quota and the limit of each resource in Phalanx's units. A resource that is not named is unlimited."""

    name: str
    above: tuple[str, ...] = ()
    children: tuple[str, ...] = ()
    fault: str = ""
    lost: bool = False
    deserved: Mapping[str, int] = field(default_factory=dict)
    limits: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class KaiDefinitions(Definitions):
    """KAI's definitions. `known`: the Queues by name. `priorities`: the value of each PriorityClass.
    `default_priority`: the value of the PriorityClass that is the global default; None if no class is. `levels`: for
    each topology, the node label of each level by the level's name or alias."""

    known: Mapping[str, KaiQueue] = field(default_factory=dict)
    priorities: Mapping[str, int] = field(default_factory=dict)
    default_priority: int | None = None
    levels: Mapping[str, Mapping[str, str]] = field(default_factory=dict)


def define(objects: Objects) -> KaiDefinitions:
    """Translate the definitions. This function raises no exception; a value that cannot be read is treated as
    missing."""
    specs = {name: obj.get("spec") or {} for name, obj in objects.get(kinds.QUEUES, {}).items()}
    known = {name: _known(name, specs) for name in specs}
    moving = {name: _consolidates(name, objects.get(kinds.QUEUES, {}), each.above) for name, each in known.items()}
    classes = objects.get(PRIORITY_CLASSES, {})
    defaults = [int(one.get("value") or 0) for one in classes.values() if one.get("globalDefault")]
    shards = [obj.get("spec") or {} for obj in objects.get(kinds.SHARDS, {}).values()]
    shard: Mapping[str, object] = next((spec for spec in shards if not spec.get("partitionLabelValue")), {})
    root = Queue(name=ROOT, order=QueueOrder.TIERED, oversubscribed=True)
    queues = [_queue(each, known, specs, shard, moving[each.name]) for each in known.values() if not each.lost]
    return KaiDefinitions(
        queues=(root, *queues) if queues else (),
        known=known,
        priorities={**CLASSES, **{name: int(one.get("value") or 0) for name, one in classes.items()}},
        default_priority=max(defaults, default=None),
        levels={name: dict(_levels(obj)) for name, obj in objects.get(kinds.TOPOLOGIES, {}).items()},
    )


# --- internal ---------------------------------------------------------------------------------------------------------


def _known(name: str, specs: Mapping[str, Any]) -> KaiQueue:
    above: list[str] = []
    parent = str(specs[name].get("parentQueue") or "")
    while parent and parent in specs and parent not in (name, *above):
        above.append(parent)
        parent = str(specs[parent].get("parentQueue") or "")
    below = (other for other, spec in specs.items() if spec.get("parentQueue") == name != other)
    children = tuple(sorted(below))  # a queue that names itself as its parent has no child, so it can be deleted
    fault = ""
    if parent:
        why = "is its own ancestor" if parent in (name, *above) else "does not exist"
        fault = f"the queue {parent}, above {name}, {why}"
    elif children:
        fault = f"the queue {name} has child queues ({', '.join(children)}): name one of these"
    resources = specs[name].get("resources") or {}
    return KaiQueue(
        name=name,
        above=tuple(above),
        children=children,
        fault=fault,
        lost=bool(parent),
        deserved=_amounts(resources, "quota"),
        limits=_amounts(resources, "limit"),
    )


def _amounts(resources: Mapping[str, Any], word: str) -> dict[str, int]:
    found = {}
    for name_in_kai, (resource, units) in RESOURCES.items():
        value = (resources.get(name_in_kai) or {}).get(word) or 0
        if isinstance(value, int | float) and value != UNLIMITED:
            found[resource] = ceil(min(max(value, 0) * units, _TOO_MUCH))
    return found


def _guaranteed(each: KaiQueue, known: Mapping[str, KaiQueue]) -> Iterator[tuple[str, int]]:
    """Yield the guarantee of the queue for each resource. If the quota is -1, the guarantee is the smallest value among
    the queue's limit and the limits and quotas of the queues above. If none of these has a value, every amount is
    guaranteed."""
    for name, _ in RESOURCES.values():
        value = each.deserved.get(name)
        if value is None:
            above = (
                bounds.get(name) for other in each.above for bounds in (known[other].deserved, known[other].limits)
            )
            value = min((bound for bound in above if bound is not None), default=MAX_AMOUNT)
        # A parent queue with quota 0 gets no guarantee (which differs from a guarantee of 0). So its children divide
        # the whole cluster.
        if value or not each.children:
            yield name, min(value, each.limits.get(name, value))


def _queue(
    each: KaiQueue,
    known: Mapping[str, KaiQueue],
    specs: Mapping[str, Any],
    shard: Mapping[str, object],
    consolidate: bool,
) -> Queue:
    spec = specs[each.name]
    resources = spec.get("resources") or {}
    weights = {
        resource: max(0.0, float((resources.get(name_in_kai) or {}).get("overQuotaWeight") or 0))
        for name_in_kai, (resource, _) in RESOURCES.items()
    }
    lines = [specs[name] for name in (each.name, *each.above)]
    deserved = [name for name, _ in RESOURCES.values() if name in each.deserved]  # all other resources are unlimited
    beyond = not deserved or any(weights[name] for name in deserved)
    spared = [_runtime_s(word, lines, shard) for word in ("preemptMinRuntime", "reclaimMinRuntime")]
    priority = spec.get("priority")
    return Queue(
        name=kinds.tree_queue(each.name),
        parent=kinds.tree_queue(each.above[0]) if each.above else ROOT,
        quotas=(Quota(guaranteed=tuple(sorted(_guaranteed(each, known))), limit=_bounds(each.limits)),),
        oversubscribed=True,
        weights=tuple(sorted(weights.items())),
        order=QueueOrder.TIERED,
        priority=PRIORITY if priority is None else int(priority),
        borrow=BorrowingPolicy.PREEMPTIBLE,
        preemption=QueuePreemption(
            within=WithinQueue.LOWER,
            reclaim=ReclaimWithinCohort.ANY,
            down_to=ReclaimFloor.FAIR_SHARE if beyond else ReclaimFloor.GUARANTEE,
            min_run_s=max(spared),
            consolidate=consolidate,
        ),
    )


def _consolidates(name: str, objects: Mapping[str, Object], above: tuple[str, ...]) -> bool:
    """Return whether consolidation is on. The queue's own annotation takes precedence, then the annotation of the
    nearest queue above."""
    for each in (name, *above):
        said = (objects[each].get("metadata") or {}).get("annotations") or {}
        if CONSOLIDATE in said:
            return str(said[CONSOLIDATE]).lower() == "true"
    return False


def _bounds(amounts: Mapping[str, int]) -> Bounds:
    return tuple(sorted(amounts.items()))


def _runtime_s(word: str, lines: list[Mapping[str, object]], shard: Mapping[str, Any]) -> float:
    """Return a minimum runtime in seconds. The setting of the queue takes precedence, then the setting of the nearest
    queue above, then the setting of the shard. Return 0 if none of them sets it. `word`: the name of the setting.
    `lines`: the settings of the queue, then of each queue above it."""
    for said in (*(spec.get(word) for spec in lines), (shard.get("minRuntime") or {}).get(word)):
        if said:
            try:
                return duration_s(said)
            except Misread:
                continue
    return 0.0


def _levels(obj: Object) -> Iterator[tuple[str, str]]:
    for level in (obj.get("spec") or {}).get("levels") or ():
        label = str(level.get("nodeLabel"))
        yield label, label
        if level.get("alias"):
            yield str(level["alias"]), label
