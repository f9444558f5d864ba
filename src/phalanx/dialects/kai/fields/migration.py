"""The Phalanx equivalent of each object of a cluster with KAI, for users who plan a migration."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from phalanx.client.kind import PRIORITY_CLASSES, Kind
from phalanx.dialects.frame.dialect import Object
from phalanx.dialects.frame.moved import Moved, each_moved
from phalanx.dialects.kai import kinds
from phalanx.dialects.kai.fields.notes import notes
from phalanx.dialects.kai.fields.tables import TABLES
from phalanx.dialects.kai.gang.grouper import DEFAULT_QUEUE, queue_named
from phalanx.dialects.kai.queues import KaiDefinitions, define

_GROUPS = (f"{kinds.GROUP}/", "kai.scheduler/")
STEPS = (
    "stop KAI, whose scheduler must not run beside us: `kubectl -n kai-scheduler scale deployment --all --replicas=0`, "
    "then delete its ValidatingWebhookConfigurations and MutatingWebhookConfigurations, which refuse writes while it "
    "is down",
    "delete what waits in the namespaces kai-resource-reservation and kai-scale-adjust: devices are counted without "
    "such pods here",
    "start `phalanx scheduler --dialect kai` (docs/guide/deploy.md), or apply the objects to a `phalanx up`",
    "pods that run go on, and are counted in their queues; those that wait name `schedulerName: kai-scheduler`, which "
    "is answered to",
    "look at `phalanx queues` and `kubectl get podgroups.scheduling.run.ai -A`",
)


def moved(objects: Iterable[Object]) -> tuple[Moved, ...]:
    """Return the equivalent of each object, in order. Objects without relation to KAI are left out."""
    return each_moved(objects, lambda found: define(_by_kind(found)), _moved)


def _by_kind(objects: Iterable[Object]) -> dict[Kind, dict[str, Object]]:
    wanted = {(kind.api_version, kind.name): kind for kind in (kinds.QUEUES, kinds.TOPOLOGIES, kinds.SHARDS)}
    wanted[PRIORITY_CLASSES.api_version, PRIORITY_CLASSES.name] = PRIORITY_CLASSES
    found: dict[Kind, dict[str, Object]] = {}
    for obj in objects:
        if (kind := wanted.get((str(obj.get("apiVersion")), str(obj.get("kind"))))) is not None:
            found.setdefault(kind, {})[str(obj["metadata"].get("name"))] = obj
    return found


def _moved(obj: Object, defined: KaiDefinitions) -> Moved | None:
    kind, name = str(obj.get("kind")), str(obj["metadata"].get("name") or obj["metadata"].get("generateName"))
    if str(obj.get("apiVersion", "")).startswith(_GROUPS):
        said = (*_faults(kind, name, defined), *notes(kind, obj)) if kind in TABLES else ()
        return Moved(object=f"{kind} {name}", becomes=_becomes(kind, name, obj), notes=said)
    if (pod := _template(obj)) is None:
        return None
    labels = {**((pod.get("metadata") or {}).get("labels") or {}), **(obj["metadata"].get("labels") or {})}
    queue = queue_named(labels) or DEFAULT_QUEUE
    where = f"jobs of the queue {kinds.tree_queue(queue)}" + ("" if queue in defined.known else ", which is not here")
    return Moved(object=f"{kind} {name}", becomes=where, notes=tuple(notes(kind, obj)))


def _template(obj: Object) -> Object | None:
    """Return the object, or the first pod template in it, with KAI's scheduler name; None if there is none."""
    for found in _templates(obj):
        if (found.get("spec") or {}).get("schedulerName") == kinds.SCHEDULER_NAME:
            return found
    return None


def _templates(value: object) -> Iterator[Object]:
    if isinstance(value, dict):
        if isinstance(value.get("spec"), dict):
            yield value
        for inner in value.values():
            yield from _templates(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _templates(inner)


def _becomes(kind: str, name: str, obj: Object) -> str:
    match kind:
        case "Queue":
            parent = (obj.get("spec") or {}).get("parentQueue")
            return f"the queue {kinds.tree_queue(name)}" + (f" below {kinds.tree_queue(parent)}" if parent else "")
        case "PodGroup":
            return "the gang of the pods that name it"
        case "Topology":
            return "levels that jobs name"
        case "SchedulingShard":
            return "the minimum runtimes of queues that say none"
    return "nothing"


def _faults(kind: str, name: str, defined: KaiDefinitions) -> Iterator[str]:
    found = defined.known.get(name) if kind == "Queue" else None
    if found is not None and found.lost:
        yield f"it starts nothing as it stands here: {found.fault}"
