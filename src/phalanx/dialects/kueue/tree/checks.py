"""Read AdmissionChecks. With an AdmissionCheck, another controller decides whether one Workload may run after the
Workload's quota is reserved.

The first part reads the definitions of MultiKueue: the AdmissionChecks of its controller, their configs, and the
clusters that the configs name.

The second part reads the states of all checks. The controller of a check writes a state into the Workload's status:
Pending, Ready, Retry or Rejected. If all checks are Ready, the Workload is admitted. After Retry, the Workload's quota
is released and the scheduler tries it again. After Rejected, the Workload is deactivated.

Sources: pkg/workload/admissionchecks.go, pkg/controller/core/workload_controller.go and
pkg/controller/admissionchecks/multikueue/admissioncheck.go of v0.19.2.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from phalanx.dialects.frame.dialect import CLUSTER, GangStage, GangView, Object, Objects, PodUpdate
from phalanx.dialects.kueue import kinds
from phalanx.dialects.kueue.provisioning import configs as configs_
from phalanx.dialects.kueue.provisioning.requests import PENDING, READY, RETRY
from phalanx.dialects.kueue.tree.workload import (
    WorkloadCheck,
    WorkloadCondition,
    WorkloadPodSetUpdate,
    WorkloadStatus,
    WorkloadView,
)
from phalanx.model.node import Topology
from phalanx.model.pod import Toleration
from phalanx.model.reason import Reason, ReasonCode

CONTROLLER = "kueue.x-k8s.io/multikueue"
SENT_TO = "phalanx.dev/sent-to"  # an annotation of Jobs; the last cluster in it runs the job
SENDING = "phalanx-sending-queues"  # a ConfigMap in kueue-system that the scheduler writes
CLUSTERS = Topology(levels=(CLUSTER,))  # all pods of a job are in one cluster


class Activity(NamedTuple):
    """The condition Active of an AdmissionCheck. `truth`: True if the condition's status is True."""

    truth: bool
    reason: str
    message: str


def clusters_of(check: Object, configs: Mapping[str, Object]) -> tuple[str, ...] | None:
    """Return the clusters to which a check may send jobs, in the order of its MultiKueueConfig. Return None if the
    check belongs to another controller, or if its MultiKueueConfig does not exist."""
    spec: Mapping[str, Any] = check.get("spec") or {}
    named = spec.get("parameters") or {}
    if spec.get("controllerName") != CONTROLLER or named.get("kind") != kinds.MULTI_CONFIGS.name:
        return None
    found = configs.get(str(named.get("name")))
    return None if found is None else tuple(map(str, (found.get("spec") or {}).get("clusters") or ()))


def activity(check: Object, configs: Mapping[str, Object], clusters: Mapping[str, Object]) -> Activity:
    """Return the condition Active of a MultiKueue check. `clusters`: the MultiKueueClusters."""
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
    """Return a text with the LocalQueues whose ClusterQueues send jobs to other clusters, each as `,NAMESPACE/NAME,`.
    The admission policy that sets `managedBy` searches this text for the queue of a new job."""
    checks = objects.get(kinds.ADMISSION_CHECKS, {})
    own_checks = {name for name, one in checks.items() if (one.get("spec") or {}).get("controllerName") == CONTROLLER}
    queues = {name for name, one in objects.get(kinds.CLUSTER_QUEUES, {}).items() if own_checks & set(_checks_of(one))}
    local = objects.get(kinds.LOCAL_QUEUES, {}).items()
    found = sorted(key for key, one in local if str((one.get("spec") or {}).get("clusterQueue")) in queues)
    return f",{','.join(found)}," if found else ""


def _checks_of(queue: Object) -> Iterator[str]:
    spec = queue.get("spec") or {}
    yield from map(str, spec.get("admissionChecks") or ())
    for one in (spec.get("admissionChecksStrategy") or {}).get("admissionChecks") or ():
        yield str(one.get("name"))


def cluster_of(told: GangView) -> str:
    """Return the cluster that runs the job; empty if no other cluster runs it."""
    if told.stage not in (GangStage.STARTING, GangStage.RUNNING):
        return ""
    said = (told.owners[0]["metadata"].get("annotations") or {}).get(SENT_TO) or ""
    return str(said).rpartition(" ")[2]


def check_state(told: GangView, one: Object, now: str) -> Object:
    """Return the entry of a check that is to be written into the Workload's status. `one`: the present entry of this
    check."""
    cluster = cluster_of(told)
    if told.stage is GangStage.LEAVING:
        return one
    state, message = (READY, f'The workload was admitted on "{cluster}"') if cluster else (PENDING, "")
    if (one["state"], one.get("message")) == (state, message) or (one["state"] == state == PENDING):
        return one
    return {**one, "state": state, "message": message, "lastTransitionTime": now}


# --- states -----------------------------------------------------------------------------------------------------------

BY = "admission-check"
FAILED_TO_START = "FailedToStart"


def own_activity(check: Object, objects: Objects) -> Activity | None:
    """Return the condition Active of a check whose controller is a part of Kueue; None for other checks. `objects`: the
    definitions. They contain the kind ProvisioningRequest if the cluster serves it."""
    spec = check.get("spec") or {}
    configs, served = objects.get(kinds.PROVISIONING_CONFIGS, {}), kinds.PROVISIONING_REQUESTS in objects
    match spec.get("controllerName"):
        case configs_.CONTROLLER:
            if configs_.config_of(check, configs) is None:
                named = (spec.get("parameters") or {}).get("name") or "none"
                text = f"parameters name no ProvisioningRequestConfig that exists: {named}"
                return Activity(False, "BadParametersRef", text)
            return Activity(True, "Active", "The admission check is active") if served else NOT_SERVED
        case controller if controller == CONTROLLER:
            return activity(check, objects.get(kinds.MULTI_CONFIGS, {}), objects.get(kinds.MULTI_CLUSTERS, {}))
        case _:
            return None


NOT_SERVED = Activity(
    False,
    "ProvisioningRequestsNotServed",
    "the cluster serves no ProvisioningRequests (autoscaling.x-k8s.io/v1): install their definition, and start the "
    "Cluster Autoscaler with --enable-provisioning-requests",
)


def states(status: WorkloadStatus) -> dict[str, WorkloadCheck]:
    """Return the states of the checks in a Workload's status, by the name of the check."""
    return {str(one.get("name")): one for one in status.get("admissionChecks") or ()}


def in_state(status: WorkloadStatus, state: str) -> list[WorkloadCheck]:
    """Return the checks of a Workload that have the given state."""
    return [one for one in states(status).values() if one.get("state") == state]


def flavors_of(status: WorkloadStatus) -> frozenset[str]:
    """Return the flavors whose quota a Workload has reserved."""
    sets = (status.get("admission") or {}).get("podSetAssignments") or ()
    return frozenset(str(flavor) for each in sets for flavor in (each.get("flavors") or {}).values())


def turned_down(status: WorkloadStatus) -> Reason | None:
    """Return why a check withdraws the Workload's quota, or makes the Workload wait for its next attempt; None if no
    check does this."""
    if retried := in_state(status, RETRY):
        named = ", ".join(f'"{one["name"]}" ({one.get("message") or ""})' for one in retried)
        text = f"Evicted due to AdmissionCheck(s) in Retry state: {named}"
        return Reason(code=ReasonCode.HELD, text=text, numbers={"by": BY})
    if at := (status.get("requeueState") or {}).get("requeueAt"):
        return Reason(code=ReasonCode.HELD, text=f"an AdmissionCheck is tried again at {at}", numbers={"by": BY})
    return None


def gate(checks_on: Callable[[frozenset[str]], list[str]], status: WorkloadStatus) -> Reason | None:
    """Return why a Workload with reserved quota may not run yet; None if it may run. `checks_on`: a function that
    returns the checks of a job with given flavors."""
    if not status.get("admission"):
        return Reason(code=ReasonCode.HELD, text="its AdmissionChecks begin when its quota is reserved")
    known = states(status)
    asked = checks_on(flavors_of(status))
    open_ = [name for name in asked if known.get(name, {}).get("state") != READY]
    if not open_:
        return None
    return Reason(code=ReasonCode.HELD, text=f"it waits for AdmissionCheck(s): {', '.join(open_)}")


class UpdateConflict(Exception):
    """Two sources set one key of the same pods to different values. The exception's text names the key and both
    values."""


def updates(workload: WorkloadView, flavor_labels: Mapping[str, str]) -> dict[str, PodUpdate]:
    """Return the changes that the checks require in the pod templates of a Workload, by the name of the pod set. As
    Kueue does, raise UpdateConflict if a key already has another value in the template, from a flavor (`flavor_labels`)
    or from another check.


    Source: pkg/podset/podset.go of v0.19.2."""
    found: dict[str, PodUpdate] = {}
    sets = {str(one.get("name")): one for one in (workload.get("spec") or {}).get("podSets") or ()}
    for check in states(workload.get("status") or {}).values():
        for said in check.get("podSetUpdates") or ():
            name = str(said.get("name"))
            found[name] = _with(found.get(name, PodUpdate()), said, f"AdmissionCheck {check.get('name')}")
    for name, update in found.items():
        template = (sets.get(name) or {}).get("template") or {}
        meta, pod = template.get("metadata") or {}, template.get("spec") or {}
        _merged(meta.get("labels"), update.labels, f"the labels of pod set {name}")
        _merged(meta.get("annotations"), update.annotations, f"the annotations of pod set {name}")
        own = {**flavor_labels, **(pod.get("nodeSelector") or {})}
        _merged(own, update.node_selector, f"the nodeSelector of pod set {name}")
    return found


def _with(update: PodUpdate, said: WorkloadPodSetUpdate, who: str) -> PodUpdate:
    tolerations = (
        Toleration(
            key=str(one.get("key") or ""),
            operator=str(one.get("operator") or "Equal"),
            value=str(one.get("value") or ""),
            effect=str(one.get("effect") or ""),
        )
        for one in said.get("tolerations") or ()
    )
    return PodUpdate(
        labels=_merged(update.labels, said.get("labels"), f"the labels of {who}"),
        annotations=_merged(update.annotations, said.get("annotations"), f"the annotations of {who}"),
        node_selector=_merged(update.node_selector, said.get("nodeSelector"), f"the nodeSelector of {who}"),
        tolerations=tuple(dict.fromkeys((*update.tolerations, *tolerations))),
    )


def _merged(own: Mapping[str, str] | None, more: Mapping[str, str] | None, what: str) -> dict[str, str]:
    own, more = own or {}, more or {}
    for key, text in more.items():
        if own.get(key, text) != text:
            raise UpdateConflict(f"{what} and podSetUpdates set {key} to different values: {own[key]} and {text}")
    return {**own, **more}


def cannot_start(text: str) -> Reason:
    """Return the reason of a job that cannot start because its checks require conflicting changes. The scheduler does
    not try the job again."""
    return Reason(code=ReasonCode.HELD, text=text, numbers={"by": FAILED_TO_START})


def failed_to_start(status: WorkloadStatus) -> Reason | None:
    """Return why a job is not tried again after its Workload was finished as FailedToStart; None if the Workload was
    not finished in this way."""
    one = _true(status, "Finished")
    return cannot_start(str(one.get("message") or "")) if one.get("reason") == FAILED_TO_START else None


def admitted(status: WorkloadStatus) -> bool:
    """Return whether a Workload is admitted."""
    return bool(_true(status, "Admitted"))


def _true(status: WorkloadStatus, kind: str) -> WorkloadCondition:
    """Return the condition of the given type if its status is True; otherwise return an empty mapping."""
    listed, nothing = status.get("conditions") or (), WorkloadCondition()
    return next((one for one in listed if one.get("type") == kind and one.get("status") == "True"), nothing)


def reset(one: WorkloadCheck, now: str) -> WorkloadCheck:
    """Return the state of a check after its Workload was evicted. `now`: the present time as a metav1.Time."""
    state = one.get("state")
    if state == PENDING:
        return one
    again = int(one.get("retryCount") or 0) + (state == RETRY)
    message = f"Reset to Pending after eviction. Previously: {state}"
    found = WorkloadCheck(name=one["name"], state=PENDING, message=message, lastTransitionTime=now)
    if again:
        found["retryCount"] = again
    return found
