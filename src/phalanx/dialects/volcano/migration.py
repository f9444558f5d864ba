"""What each object of a cluster of Volcano's becomes here, for whoever is about to move.

Its scheduler's ConfigMap is read as well: actions and plugins say how the cluster was scheduled, and each is
answered by what does the same here, or by why nothing does.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import yaml

from phalanx.dialects.fields import Misread
from phalanx.dialects.frame import Object
from phalanx.dialects.moved import Moved
from phalanx.dialects.volcano.kinds import SCHEDULER_NAME
from phalanx.dialects.volcano.reader import read_pod_group, read_queue
from phalanx.dialects.volcano.tables import TABLES, notes

STEPS = (
    "stop Volcano's scheduler, which must not run beside us: "
    "`kubectl -n volcano-system scale deployment volcano-scheduler --replicas=0`",
    "on a cluster keep its controllers, which make pods and PodGroups of its Jobs; on a `phalanx up` ours do",
    "its webhooks may stay as long as its admission service runs; else delete their configurations",
    "start `phalanx scheduler --dialect volcano` (docs/guide/deploy.md), or apply the objects to a `phalanx up`",
    "pods that run go on, and are counted in their queues; those that wait are queued as they are",
    "look at `phalanx queues` and `kubectl get podgroups.scheduling.volcano.sh -A`",
)
_GROUP = ".volcano.sh/"
_FILE = "volcano-scheduler.conf"
_ALWAYS = "done always"
_ACTIONS: Mapping[str, str] = {
    **dict.fromkeys(("enqueue", "allocate", "backfill"), _ALWAYS),
    "preempt": "done where priorities differ; a queue says otherwise by `preemption`",
    "reclaim": "done where a queue has less than its `deserved`",
    "gangpreempt": "victims are whole gangs, or what they have beyond their minimum",
    "gangreclaim": "victims are whole gangs, or what they have beyond their minimum",
    "shuffle": "nothing is moved that runs",
}
_PLUGINS: Mapping[str, str] = {
    "gang": _ALWAYS,
    "priority": _ALWAYS,
    "conformance": "pods of others, kube-system's too, are never victims",
    "drf": "fair queues: `order: fair` (docs/guide/queues.md)",
    "proportion": "weights of queues share what is not guaranteed",
    "capacity": "`deserved` is guaranteed, `capability` is the limit",
    "predicates": "all of kube-scheduler's",
    "nodeorder": "`--policy` says `score: pack` or `spread`",
    "binpack": "`score: pack`, the default",
    "overcommit": "nothing is taken up before it can start",
    "sla": "backfill gives whoever waits longest a reservation",
    "tdm": "reservations set nodes aside for a time",
    "cdp": "queues say how long a job is spared: `preemption.minRun`",
    "task-topology": "write affinity in the tasks' templates",
    "numa-aware": "zones of nodes are looked at without being asked to",
    "nodegroup": "flavors: a phalanx.dev Queue with quotas by flavor",
    "network-topology-aware": "phalanx.dev/closeness, which names a label of nodes",
    "usage": "what pods ask counts, not what they use",
    "rescheduling": "nothing is moved that runs",
    "pdb": _ALWAYS,
    "resourcequota": _ALWAYS,
    "deviceshare": "devices of nodes are counted whole (docs/guide/kubernetes.md)",
    "resource-strategy-fit": "`score: pack` or `spread` for all resources",
    "extender": "nobody else is asked",
}


def moved(objects: Iterable[Object]) -> tuple[Moved, ...]:
    """Return what each of these objects becomes, in their order. Those that have nothing to do with Volcano are left
    out."""
    found = (_moved(obj) for obj in objects if isinstance(obj.get("metadata"), Mapping))
    return tuple(one for one in found if one is not None)


def _moved(obj: Object) -> Moved | None:
    kind, meta = str(obj.get("kind")), obj["metadata"]
    name = f"{kind} {meta.get('name') or meta.get('generateName')}"
    if kind == "ConfigMap":
        text = (obj.get("data") or {}).get(_FILE)
        return None if text is None else Moved(object=name, becomes="these settings", notes=tuple(_settings(text)))
    if _GROUP in str(obj.get("apiVersion", "")):
        if kind not in TABLES:
            return Moved(object=name, becomes="nothing", notes=("this kind is not known here",))
        said = tuple(notes(kind, obj))
        try:
            return Moved(object=name, becomes=_becomes(kind, obj), notes=said)
        except Misread as error:
            return Moved(object=name, becomes="nothing, as it cannot be read", notes=(str(error), *said))
    spec = obj.get("spec") or {}
    pod = (spec.get("template") or {}).get("spec") or spec
    if isinstance(pod, Mapping) and pod.get("schedulerName") == SCHEDULER_NAME:
        return Moved(object=name, becomes="pods that we bind as they are", notes=tuple(notes(kind, obj)))
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
            return f"run as it is, in the queue {spec.get('queue') or 'default'}"
        case "JobFlow" | "JobTemplate" | "CronJob" | "Command":
            return "run as it is on a `phalanx up`; on a cluster Volcano's controllers run it"
    return "nothing"


def _settings(text: Any) -> Iterator[str]:
    """Yield what of the scheduler's configuration is done here, and by what."""
    try:
        found = yaml.safe_load(str(text))
        actions = [one.strip() for one in str(found.get("actions", "")).split(",") if one.strip()]
        plugins = [str(one["name"]) for tier in found.get("tiers") or () for one in tier.get("plugins") or ()]
    except (yaml.YAMLError, AttributeError, TypeError, KeyError) as error:
        yield f"{_FILE} cannot be read: {' '.join(str(error).split())}"
        return
    for word, names, known in (("action", actions, _ACTIONS), ("plugin", plugins, _PLUGINS)):
        for name in names:
            yield f"the {word} {name}: {known.get(name, 'not known here, and has no effect')}"
