"""Define Koordinator's kinds, labels and annotations, and the names that its quotas have as Phalanx Queues.

Koordinator's PodGroups and ElasticQuotas are in the API group `scheduling.sigs.k8s.io`, which scheduler-plugins used
before 0.22. The name of a quota must be unique in the cluster, although quotas are in namespaces.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from phalanx.client.kind import Kind

NAME = "koordinator"
SCHEDULER_NAME = "koord-scheduler"
SIGS, SCHEDULING, SLO = "scheduling.sigs.k8s.io", "scheduling.koordinator.sh", "slo.koordinator.sh"


def _kind(group: str, plural: str, name: str, *, namespaced: bool = False) -> Kind:
    return Kind(group=group, version="v1alpha1", plural=plural, name=name, namespaced=namespaced)


POD_GROUPS = _kind(SIGS, "podgroups", "PodGroup", namespaced=True)
ELASTIC_QUOTAS = _kind(SIGS, "elasticquotas", "ElasticQuota", namespaced=True)
QUOTA_PROFILES = _kind("quota.koordinator.sh", "elasticquotaprofiles", "ElasticQuotaProfile", namespaced=True)
COLOCATION_PROFILES = _kind("config.koordinator.sh", "clustercolocationprofiles", "ClusterColocationProfile")
RESERVATIONS = _kind(SCHEDULING, "reservations", "Reservation")
DEVICES = _kind(SCHEDULING, "devices", "Device")
MIGRATION_JOBS = _kind(SCHEDULING, "podmigrationjobs", "PodMigrationJob")
NETWORK_TOPOLOGIES = _kind(SCHEDULING, "clusternetworktopologies", "ClusterNetworkTopology")
NODE_TOPOLOGIES = _kind("topology.node.k8s.io", "noderesourcetopologies", "NodeResourceTopology")
EXPLANATIONS = _kind(SCHEDULING, "scheduleexplanations", "ScheduleExplanation", namespaced=True)

AFFINITY, EXACT, ALLOCATED, DEVICES_ALLOCATED = (
    f"{SCHEDULING}/{word}"
    for word in ("reservation-affinity", "exact-match-reservation", "reservation-allocated", "device-allocated")
)
PRIORITY, PRIORITY_CLASS, QOS = (f"koordinator.sh/{word}" for word in ("priority", "priority-class", "qosClass"))
# The range of priorities of each PriorityClass koord-*.
BANDS = {"prod": (9000, 9999), "mid": (7000, 7999), "batch": (5000, 5999), "free": (3000, 3999)}

GANG = f"gang.{SCHEDULING}/"  # annotations
GANG_NAME, GANG_MIN, GANG_GROUPS = f"{GANG}name", f"{GANG}min-available", f"{GANG}groups"
_OLD = "pod-group.scheduling.sigs.k8s.io"
GROUP_LABEL, LIGHT_LABEL, LIGHT_MIN_LABEL = _OLD, f"{_OLD}/name", f"{_OLD}/min-available"

QUOTA = f"quota.{SCHEDULING}/"  # labels of quotas and pods, annotations of quotas
QUOTA_NAME, PREEMPTIBLE, PARENT, IS_PARENT = (
    f"{QUOTA}{word}" for word in ("name", "preemptible", "parent", "is-parent")
)
LENT, WEIGHT, NAMESPACES, LIMIT = (
    f"{QUOTA}{word}" for word in ("allow-lent-resource", "shared-weight", "namespaces", "admission")
)
IS_ROOT, TOTAL = f"{QUOTA}is-root", f"{QUOTA}total-resource"
ROOT, SYSTEM, DEFAULT = (f"koordinator-{which}-quota" for which in ("root", "system", "default"))

# Koordinator's rules apply to pods of these schedulers only if the pods have a label or an annotation of Koordinator.
_OTHERS = frozenset({"default-scheduler", "phalanx"})
_OWN_JOB = "phalanx.dev/job"
_TREE, _SAID = "koordinator/", "koordinator-quota/"


def is_theirs(meta: Mapping[str, Any], scheduler: str) -> bool:
    """Return whether Koordinator's rules apply to a pod. `scheduler`: the scheduler that the pod names."""
    labels, notes = meta.get("labels") or {}, meta.get("annotations") or {}
    if _OWN_JOB in labels:
        return False
    said = GANG_NAME in notes or QUOTA_NAME in labels or AFFINITY in notes
    return scheduler == SCHEDULER_NAME or (scheduler in _OTHERS and said)


def tree_quota(name: str) -> str:
    """Return the name of the Phalanx Queue of a quota."""
    return _TREE + name


def quota_of(queue: str) -> str:
    """Return the quota that became this Phalanx Queue; empty if the queue is not from a quota."""
    return queue.removeprefix(_TREE) if queue.startswith(_TREE) else ""


def said_quota(namespace: str, name: str) -> str:
    """Return a preliminary queue name for a pod. It contains the namespace of the pod and the quota that the pod names
    (empty if it names no quota). `claim` replaces it when the definitions are known."""
    return f"{_SAID}{namespace}/{name}"


def quota_said(queue: str) -> tuple[str, str] | None:
    """Return the namespace and the quota in a name that `said_quota` returned; None if the name has another form."""
    if not queue.startswith(_SAID):
        return None
    namespace, _, name = queue.removeprefix(_SAID).partition("/")
    return namespace, name
