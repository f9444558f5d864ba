"""Find the Phalanx equivalent of each object of a cluster with Koordinator. The list of these equivalents helps users
to plan a migration."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from phalanx.dialects.frame.dialect import Object
from phalanx.dialects.frame.moved import Moved, by_kind, each_moved
from phalanx.dialects.kube_scheduler.koordinator import kinds
from phalanx.dialects.kube_scheduler.koordinator.fields.tables import TABLES, notes
from phalanx.dialects.kube_scheduler.koordinator.gang import options_of
from phalanx.dialects.kube_scheduler.koordinator.quota_tree import ElasticQuotaDefinitions, define

_GROUPS = tuple(
    f"{group}/"
    for group in (
        *(kinds.SIGS, kinds.SCHEDULING, kinds.SLO, kinds.NODE_TOPOLOGIES.group),
        *("quota.koordinator.sh", "config.koordinator.sh"),
    )
)
STEPS = (
    "stop Koordinator's scheduler and manager, because they must not run at the same time as Phalanx: `kubectl -n "
    "koordinator-system scale deployment koord-scheduler koord-manager koord-descheduler --replicas=0`; then delete "
    "Koordinator's ValidatingWebhookConfiguration and MutatingWebhookConfiguration, which refuse writes while the "
    "manager is stopped",
    "koordlet may continue to run: Phalanx reads the Devices and NodeResourceTopologies that koordlet writes, and "
    "writes the devices and cpus of pods into the annotations that koordlet reads",
    "existing pods keep the changes that ClusterColocationProfiles made to them; write the scheduler name and the "
    "PriorityClass of future pods into their pod templates",
    "start `phalanx scheduler --dialect koordinator` (docs/guide/deploy.md), or apply the objects to a `phalanx up`",
    "running pods continue and are charged to their queues; Phalanx schedules waiting pods, which have "
    "`schedulerName: koord-scheduler`",
    "check the result with `phalanx queues` and `kubectl get elasticquotas.scheduling.sigs.k8s.io -A`",
)


def moved(objects: Iterable[Object]) -> tuple[Moved, ...]:
    """Return the equivalents of the objects in the order of the objects. Objects that have nothing to do with
    Koordinator are left out."""
    return each_moved(
        objects, lambda found: define(by_kind(found, (kinds.ELASTIC_QUOTAS, kinds.QUOTA_PROFILES))), _moved
    )


# --- internal ---------------------------------------------------------------------------------------------------------


def _moved(obj: Object, defined: ElasticQuotaDefinitions) -> Moved | None:
    kind, name = str(obj.get("kind")), str(obj["metadata"].get("name") or obj["metadata"].get("generateName"))
    if str(obj.get("apiVersion", "")).startswith(_GROUPS) and kind in TABLES:
        said = (*_faults(kind, name, defined), *notes(kind, obj))
        return Moved(object=f"{kind} {name}", becomes=_becomes(kind, obj, defined), notes=said)
    pod = obj if kind == "Pod" else _template(obj)
    if pod is None:
        return None
    meta = {"namespace": obj["metadata"].get("namespace") or "default", **(pod.get("metadata") or {})}
    said_by = options_of(meta, str((pod.get("spec") or {}).get("schedulerName") or "default-scheduler"))
    if not said_by:
        return None
    quota = defined.quota(*(kinds.quota_said(said_by["phalanx.dev/queue"]) or ("", "")))
    queue = f"the queue {kinds.tree_quota(quota)}" if quota else "the queue of pods that name no quota"
    gang = said_by.get("phalanx.dev/job", "").rpartition(":")[2]
    what = f"pods of the gang {gang}" if gang else "pods that start one by one"
    return Moved(
        object=f"{kind} {name}",
        becomes=f"{what}, in {queue}",
        notes=tuple(notes("Pod", {"metadata": meta})),
    )


def _template(obj: Object) -> Mapping[str, Any] | None:
    """Return the pod template of a Job, a Deployment or a similar object; None if the object has no pod template."""
    found = (obj.get("spec") or {}).get("template") if isinstance(obj.get("spec"), Mapping) else None
    return found if isinstance(found, Mapping) else None


def _becomes(kind: str, obj: Object, defined: ElasticQuotaDefinitions) -> str:
    name = str(obj["metadata"].get("name"))
    match kind:
        case "ElasticQuota":
            if (quota := defined.quotas.get(name)) is None:  # the object has an API version that is not served
                return "nothing"
            above = "" if name in (kinds.ROOT, kinds.SYSTEM) else f" below {kinds.tree_quota(quota.parent)}"
            return f"the queue {kinds.tree_quota(name)}{above}"
        case "ElasticQuotaProfile":
            return (
                f"the queue {kinds.tree_quota(str((obj.get('spec') or {}).get('quotaName')))}, if it has no quota yet"
            )
        case "Reservation":
            return "capacity on one node, reserved for the Reservation's owners"
        case "Device":
            return f"the devices of the node {name}"
        case "NodeResourceTopology":
            return f"the cores and NUMA zones of the node {name}"
        case "PodGroup":
            return f"a gang of {(obj.get('spec') or {}).get('minMember', 0)} pods"
    return "nothing"


def _faults(kind: str, name: str, defined: ElasticQuotaDefinitions) -> Iterator[str]:
    if kind != "ElasticQuota" or name not in defined.quotas:
        return
    parent = defined.quotas[name].parent
    if name not in (kinds.ROOT, kinds.SYSTEM) and parent not in defined.quotas:
        yield f"its parent {parent} is not among these objects: jobs of this quota wait until the parent exists"
