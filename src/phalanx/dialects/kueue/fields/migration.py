"""Find the Phalanx equivalent of each object of a cluster with Kueue. The list of these equivalents helps users to plan
a migration."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from phalanx.client.kind import NAMESPACES, Kind
from phalanx.dialects.frame.dialect import Object
from phalanx.dialects.frame.moved import Moved, each_moved
from phalanx.dialects.job_kinds.supported import FRAMEWORKS
from phalanx.dialects.kueue import gangs, kinds
from phalanx.dialects.kueue.fields.tables import TABLES, notes
from phalanx.dialects.kueue.tree.configuration import CONFIGURATIONS, text_of
from phalanx.dialects.kueue.tree.definitions import KueueDefinitions, define
from phalanx.model.queue import Queue, QueueOrder

_BY_PODS = frozenset({"Pod", "Deployment", "StatefulSet", kinds.LEADER_WORKER_SETS.name})
_JOBS = frozenset({"Job", *(kind.name for kind in FRAMEWORKS)}) | _BY_PODS
STEPS = (
    "stop Kueue, because it must not run at the same time as Phalanx: `kubectl -n kueue-system scale deployment "
    "kueue-controller-manager --replicas=0`; then delete its ValidatingWebhookConfiguration and "
    "MutatingWebhookConfiguration, which refuse every write while Kueue is stopped",
    "Kueue's CustomResourceDefinitions convert objects between versions by Kueue's webhook: set "
    "`spec.conversion.strategy: None` in each CustomResourceDefinition of kueue.x-k8s.io, or save the objects and "
    "delete the definitions",
    "start `phalanx scheduler --dialect kueue` (docs/guide/deploy.md), or apply the objects to a `phalanx up`",
    "running jobs continue, and Phalanx does not manage them; suspended jobs are queued, and their pods need "
    "`schedulerName: phalanx`, which new jobs get automatically",
    "check the result with `phalanx queues` and `kubectl get workloads.kueue.x-k8s.io -A`",
)


def moved(objects: Iterable[Object]) -> tuple[Moved, ...]:
    """Return the equivalents of the objects in the order of the objects. Objects that have nothing to do with Kueue are
    left out."""
    return each_moved(objects, lambda found: define(_by_kind(found)), _moved)


def _by_kind(objects: Iterable[Object]) -> dict[Kind, dict[str, Object]]:
    by_name = {kind.name: kind for kind in vars(kinds).values() if isinstance(kind, Kind)}
    by_name |= {kind.name: kind for kind in (NAMESPACES, CONFIGURATIONS)}
    found: dict[Kind, dict[str, Object]] = {}
    for obj in objects:
        if (kind := by_name.get(str(obj.get("kind")))) is not None:
            inside = kind.namespaced or kind == CONFIGURATIONS
            meta = {"namespace": "default", **obj["metadata"]} if inside else obj["metadata"]
            key = f"{meta['namespace']}/{meta.get('name')}" if inside else str(meta.get("name"))
            found.setdefault(kind, {})[key] = {**obj, "metadata": meta}
    found.setdefault(kinds.PROVISIONING_REQUESTS, {})  # assume that the cluster serves this kind
    return found


def _moved(obj: Object, defined: KueueDefinitions) -> Moved | None:
    kind, name = str(obj.get("kind")), str(obj["metadata"].get("name") or obj["metadata"].get("generateName"))
    is_kueue = str(obj.get("apiVersion", "")).startswith(f"{kinds.GROUP}/")
    if is_kueue and kind in TABLES:
        said = (*_faults(kind, name, defined), *notes(kind, obj))
        return Moved(object=f"{kind} {name}", becomes=_becomes(kind, name, obj, defined), notes=said)
    if kind == CONFIGURATIONS.name and text_of(obj) is not None:
        return Moved(object=f"{kind} {name}", becomes="these settings", notes=tuple(notes(kind, obj)))
    if kind in _JOBS and gangs.options_of(kind, obj["metadata"]):
        return Moved(object=f"{kind} {name}", becomes=_job(obj, defined), notes=tuple(notes(kind, obj)))
    if kinds.QUEUE_LABEL in (obj["metadata"].get("labels") or {}):
        why = "Phalanx does not read Kueue's labels on this kind, so the object is not queued"
        return Moved(object=f"{kind} {name}", becomes="nothing", notes=(why,))
    return None


def _becomes(kind: str, name: str, obj: Object, defined: KueueDefinitions) -> str:
    match kind:
        case "ClusterQueue":
            return _queue(kinds.tree_queue(name), defined)
        case "Cohort":
            return _queue(kinds.tree_cohort(name), defined)
        case "LocalQueue":
            of = str((obj.get("spec") or {}).get("clusterQueue"))
            return f"a name for the queue {kinds.tree_queue(of)} in its namespace"
        case "ResourceFlavor":
            return f"the flavor {kinds.tree_flavor(name)}"
        case "WorkloadPriorityClass":
            return f"the priority {int(obj.get('value') or 0)} of jobs that name it"
        case "Workload":
            return "is created again for its job"
        case "AdmissionCheck":
            return "an admission check: its ClusterQueues start no jobs until its controller has made it active"
    return "nothing"


def _queue(name: str, defined: KueueDefinitions) -> str:
    queue: Queue = next(each for each in defined.queues if each.name == name)
    below = f" below {queue.parent}" if queue.parent else ""
    return f"the queue {name}{below}" + (", by past usage" if queue.order is QueueOrder.USAGE else "")


def _faults(kind: str, name: str, defined: KueueDefinitions) -> Iterator[str]:
    found = defined.cluster_queues.get(name) if kind == "ClusterQueue" else None
    if found is not None and not found.active:
        yield f"it admits no jobs: {found.message}"


def _job(obj: Object, defined: KueueDefinitions) -> str:
    meta, what = obj["metadata"], "pods" if obj["kind"] in _BY_PODS else "a job"
    namespace = meta.get("namespace") or "default"
    if not defined.manages(namespace):
        return f"{what} without a queue: managedJobsNamespaceSelector does not select the namespace {namespace}"
    key = f"{namespace}/{meta['labels'][kinds.QUEUE_LABEL]}"
    local = defined.local_queues.get(key)
    where = (
        f"the queue {kinds.tree_queue(local.cluster_queue)}"
        if local is not None
        else f"LocalQueue {key}, which does not exist"
    )
    return f"{what} of {where}"
