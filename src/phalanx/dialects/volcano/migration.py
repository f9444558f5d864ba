"""The Phalanx equivalent of each object of a cluster with Volcano, for users who plan a migration.

The scheduler's ConfigMap is read too. Each action and plugin is listed with its equivalent, or with the reason why
there is none.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from phalanx.dialects.frame.dialect import Object
from phalanx.dialects.frame.moved import Moved
from phalanx.dialects.schema.fields import Misread
from phalanx.dialects.volcano.definitions.configuration import text_of
from phalanx.dialects.volcano.definitions.hyper_nodes import level
from phalanx.dialects.volcano.definitions.queues import read_queue
from phalanx.dialects.volcano.gangs import read_pod_group
from phalanx.dialects.volcano.kinds import SCHEDULER_NAME
from phalanx.dialects.volcano.settings import told
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


def moved(objects: Iterable[Object]) -> tuple[Moved, ...]:
    """Return the equivalent of each object, in order. Objects without relation to Volcano are left out."""
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
        case "HyperNode":
            return f"a domain of the level {level(int(spec.get('tier') or 0))}"
        case "Numatopology":
            return f"the NUMA zones of the node {name}"
        case "JobFlow" | "JobTemplate" | "CronJob" | "Command":
            return "run as it is on a `phalanx up`; on a cluster Volcano's controllers run it"
    return "nothing"
