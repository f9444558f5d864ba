"""MultiKueue's definitions: AdmissionChecks of its controller, their configs, and the clusters that these name.


Source: pkg/controller/admissionchecks/multikueue/admissioncheck.go of v0.19.2.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from phalanx.dialects.frame.dialect import CLUSTER, Object, Objects, Stage, Told
from phalanx.dialects.kueue import kinds
from phalanx.dialects.kueue.provisioning.requests import PENDING, READY
from phalanx.model.node import Topology

CONTROLLER = "kueue.x-k8s.io/multikueue"
SENT_TO = "phalanx.dev/sent-to"  # an annotation of Jobs; the last cluster in it has the job
SENDING = "phalanx-sending-queues"  # a ConfigMap of kueue-system that the scheduler writes
CLUSTERS = Topology(levels=(CLUSTER,))  # all pods of a job are in one cluster


class Activity(NamedTuple):
    """The condition Active of an AdmissionCheck. `truth`: its status is True."""

    truth: bool
    reason: str
    message: str


def clusters_of(check: Object, configs: Mapping[str, Object]) -> tuple[str, ...] | None:
    """Return the clusters of a check, in their order; None if the check is of another controller, or names no
    MultiKueueConfig that exists."""
    spec: Mapping[str, Any] = check.get("spec") or {}
    named = spec.get("parameters") or {}
    if spec.get("controllerName") != CONTROLLER or named.get("kind") != kinds.MULTI_CONFIGS.name:
        return None
    found = configs.get(str(named.get("name")))
    return None if found is None else tuple(map(str, (found.get("spec") or {}).get("clusters") or ()))


def activity(check: Object, configs: Mapping[str, Object], clusters: Mapping[str, Object]) -> Activity:
    """Return the condition Active of a check of MultiKueue. `clusters`: the MultiKueueClusters."""
    listed = clusters_of(check, configs)
    if listed is None:
        named = ((check.get("spec") or {}).get("parameters") or {}).get("name") or "none"
        text = f"Cannot load the AdmissionChecks parameters: there is no MultiKueueConfig that they name: {named}"
        return Activity(False, "BadConfig", text)
    missing = [name for name in listed if name not in clusters]
    inactive = [name for name in listed if name in clusters and not is_active(clusters[name])]
    if not missing and not inactive:
        return Activity(True, "Active", "The admission check is active")
    lists = (("Missing", missing), ("Inactive", inactive))
    text = ", ".join(f"{word} clusters: [{' '.join(names)}]" for word, names in lists if names)
    usable = len(missing) + len(inactive) < len(listed)
    return Activity(usable, "SomeActiveClusters" if usable else "NoUsableClusters", text)


def is_active(obj: Object) -> bool:
    """Return whether the condition Active of an object is True."""
    conditions = (obj.get("status") or {}).get("conditions") or ()
    return any(one.get("type") == "Active" and one.get("status") == "True" for one in conditions)


def all_clusters(checks: Mapping[str, Object], configs: Mapping[str, Object]) -> dict[str, tuple[str, ...]]:
    """Return the clusters of each check that sends jobs to other clusters."""
    found = ((name, clusters_of(check, configs)) for name, check in checks.items())
    return {name: clusters for name, clusters in found if clusters is not None}


def sending_queues(objects: Objects) -> str:
    """Return the LocalQueues whose ClusterQueues send jobs to other clusters, each as `,NAMESPACE/NAME,`: the admission
    policy that sets `managedBy` looks for the queue of a new job in this text."""
    checks = objects.get(kinds.ADMISSION_CHECKS, {})
    ours = {name for name, one in checks.items() if (one.get("spec") or {}).get("controllerName") == CONTROLLER}
    queues = {name for name, one in objects.get(kinds.CLUSTER_QUEUES, {}).items() if ours & set(_checks_of(one))}
    local = objects.get(kinds.LOCAL_QUEUES, {}).items()
    found = sorted(key for key, one in local if str((one.get("spec") or {}).get("clusterQueue")) in queues)
    return f",{','.join(found)}," if found else ""


def _checks_of(queue: Object) -> Iterator[str]:
    spec = queue.get("spec") or {}
    yield from map(str, spec.get("admissionChecks") or ())
    for one in (spec.get("admissionChecksStrategy") or {}).get("admissionChecks") or ():
        yield str(one.get("name"))


def cluster_of(told: Told) -> str:
    """Return the cluster that has the job; empty if none has."""
    if told.stage not in (Stage.STARTING, Stage.RUNNING):
        return ""
    said = (told.owners[0]["metadata"].get("annotations") or {}).get(SENT_TO) or ""
    return str(said).rpartition(" ")[2]


def check_state(told: Told, one: Object, now: str) -> Object:
    """Return the state of a check in the Workload's status. `one`: its last state."""
    cluster = cluster_of(told)
    if told.stage is Stage.LEAVING:
        return one
    state, message = (READY, f'The workload was admitted on "{cluster}"') if cluster else (PENDING, "")
    if (one["state"], one.get("message")) == (state, message) or (one["state"] == state == PENDING):
        return one
    return {**one, "state": state, "message": message, "lastTransitionTime": now}
