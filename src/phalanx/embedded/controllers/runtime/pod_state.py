"""The fields of objects that several controllers read: times, states of pods, owners and label selectors.

The first part reads times of the Kubernetes API (RFC 3339, whole seconds, UTC) as seconds since the epoch.

The second part reads the state of a pod: active, terminating, ready, failed, its finish time, and the pod that it
replaces. These terms are defined as in k8s.io/kubernetes/pkg/controller (FilterActivePods, ActivePods,
CountTerminatingPods) and in the Job controller of Kubernetes. Pods are plain JSON objects.

The third part indexes pods by their controller, so that the reconciliation of a Job reads only its own pods. A Job may
adopt a pod that it selects and that has no controller. Pods without a controller are indexed by the label that
generated selectors match, and by namespace for the few Jobs whose selector a user wrote.

The fourth part checks whether a label selector (metav1.LabelSelector) selects an object's labels.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from functools import lru_cache
from typing import Any

from phalanx.client.connection import Object
from phalanx.client.informer import Change, key_of
from phalanx.client.kind import Kind


@lru_cache(maxsize=65536)
def seconds(text: str) -> float:
    """Return a time such as `2026-11-21T05:03:31Z` (also with a fraction) in seconds since 1970. Raises ValueError for
    any other string."""
    return datetime.fromisoformat(text).timestamp()


# --- pods -------------------------------------------------------------------------------------------------------------

TRACKING = "batch.kubernetes.io/job-tracking"
INDEX = "batch.kubernetes.io/job-completion-index"
INDEX_FAILURES = "batch.kubernetes.io/job-index-failure-count"
INDEX_IGNORED = "batch.kubernetes.io/job-index-ignored-failure-count"
DELETION_COST = "controller.kubernetes.io/pod-deletion-cost"

_CAUSE_CHARS = 2048  # the maximum number of characters that the message of a Job contains of a pod's message
_INT32_CHARS = len("-2147483648")
_PHASE_ORDER = {"Pending": 0, "Unknown": 1, "Running": 2}


def uid_of(obj: Object) -> str:
    uid: str = obj["metadata"]["uid"]
    return uid


def phase(pod: Object) -> str:
    return str(pod.get("status", {}).get("phase", "Pending"))


def is_terminal(pod: Object) -> bool:
    return phase(pod) in {"Succeeded", "Failed"}


def is_deleting(obj: Object) -> bool:
    return "deletionTimestamp" in obj["metadata"]


def is_active(pod: Object) -> bool:
    return not is_terminal(pod) and not is_deleting(pod)


def is_terminating(pod: Object) -> bool:
    return not is_terminal(pod) and is_deleting(pod)


def is_tracked(pod: Object) -> bool:
    """Return True if the pod has the finalizer that the Job controller removes when it has counted the pod."""
    return TRACKING in pod["metadata"].get("finalizers", ())


def condition(obj: Object, kind: str) -> dict[str, Any] | None:
    """Return the condition of the type `kind` in status.conditions."""
    for entry in obj.get("status", {}).get("conditions") or ():
        if entry["type"] == kind:
            found: dict[str, Any] = entry
            return found
    return None


def is_ready(pod: Object) -> bool:
    ready = condition(pod, "Ready")
    return ready is not None and ready.get("status") == "True"


def controller_of(obj: Object) -> dict[str, Any] | None:
    """Return the owner reference with `controller: true`, which names the controller of the object; None if there is
    none."""
    for reference in obj["metadata"].get("ownerReferences") or ():
        if reference.get("controller"):
            found: dict[str, Any] = reference
            return found
    return None


def is_controlled_by(obj: Object, owner: Object) -> bool:
    above = controller_of(obj)
    return above is not None and above["uid"] == uid_of(owner)


def owner_reference(kind: Kind, owner: Object) -> dict[str, Any]:
    """Return the reference by which `owner` controls an object."""
    return {
        "apiVersion": kind.api_version,
        "kind": kind.name,
        "name": owner["metadata"]["name"],
        "uid": owner["metadata"]["uid"],
        "controller": True,
        "blockOwnerDeletion": True,
    }


def completion_index(pod: Object) -> int | None:
    """Return the completion index of a pod of an Indexed Job; None if the pod has no valid index."""
    text = pod["metadata"].get("annotations", {}).get(INDEX, "")
    return int(text) if text.isdigit() else None


def index_failures(pod: Object) -> int:
    """Return the number of earlier pods of the same index whose failures were counted."""
    return _count(pod, INDEX_FAILURES)


def index_failures_all(pod: Object) -> int:
    """Return the number of earlier pods of the same index that failed, including the failures that the pod failure
    policy ignored. The back-off of an index grows with this number."""
    return _count(pod, INDEX_FAILURES) + _count(pod, INDEX_IGNORED)


def index_failures_ignored(pod: Object) -> int:
    return _count(pod, INDEX_IGNORED)


def restarts(pod: Object) -> int:
    """Return the number of restarts of all containers, including init containers."""
    status = pod.get("status", {})
    every = [*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ())]
    return sum(container.get("restartCount", 0) for container in every)


def finished_at(pod: Object) -> float:
    """Return the time at which the pod ended: the time at which its last container ended. If that is unknown, return
    the time at which Ready became False, the time of the deletion, or the creation time."""
    containers = pod.get("status", {}).get("containerStatuses") or ()
    ends = [entry.get("state", {}).get("terminated", {}).get("finishedAt") for entry in containers]
    if ends and all(ends):
        return max(seconds(end) for end in ends)
    ready = condition(pod, "Ready")
    if ready is not None and ready.get("status") == "False" and ready.get("lastTransitionTime"):
        return seconds(ready["lastTransitionTime"])
    meta = pod["metadata"]
    if "deletionTimestamp" in meta:
        return seconds(meta["deletionTimestamp"]) - float(meta.get("deletionGracePeriodSeconds") or 0)
    return seconds(meta["creationTimestamp"])


def failure_cause(pods: Iterable[Object]) -> str:
    """Return a message with the name of the pod that failed first and the cause in its status; "" if no status contains
    a cause."""
    failed = sorted((pod for pod in pods if phase(pod) == "Failed"), key=finished_at)
    told = ((pod["metadata"]["name"], (pod.get("status") or {}).get("message")) for pod in failed)
    return next((f"pod {name}: {message[:_CAUSE_CHARS]}" for name, message in told if message), "")


def removal_rank(pod: Object, cost: int = 0, peers_on_node: int = 0) -> tuple[Any, ...]:
    """Return the sort key of an active pod; pods with a low key are removed first. The order is: pods without a node,
    pending pods, pods that are not ready; then the lowest deletion cost, the most peers on the node, the pod that
    became ready last, the most restarts, the youngest pod.

    Source: ActivePodsWithRanks of k8s.io/kubernetes/pkg/controller. The Job controller of Kubernetes uses neither cost
    nor peers."""
    ready = condition(pod, "Ready") if is_ready(pod) else None
    ready_since = seconds(ready["lastTransitionTime"]) if ready and ready.get("lastTransitionTime") else float("inf")
    return (
        bool(pod["spec"].get("nodeName")),
        _PHASE_ORDER.get(phase(pod), 0),
        ready is not None,
        cost,
        -peers_on_node,
        -ready_since if ready is not None else 0.0,
        -restarts(pod),
        -seconds(pod["metadata"]["creationTimestamp"]),
    )


def deletion_cost(pod: Object) -> int:
    """Return the deletion cost in the pod's annotation. An invalid cost counts as zero; the API server refuses such a
    cost."""
    text = str((pod["metadata"].get("annotations") or {}).get(DELETION_COST, "0"))
    return int(text) if text.lstrip("-").isdecimal() and len(text) <= _INT32_CHARS else 0


def _count(pod: Object, annotation: str) -> int:
    text = pod["metadata"].get("annotations", {}).get(annotation, "")
    return int(text) if text.isdigit() and int(text) < 1 << 31 else 0


# --- index of pods ----------------------------------------------------------------------------------------------------

CONTROLLER_UID = "batch.kubernetes.io/controller-uid"
_LEGACY_UID = "controller-uid"


class OwnerPodIndex:
    """An index of pods by their controller. `take` updates the index. It must be subscribed to changes of pods before
    any code that reads the index."""

    def __init__(self) -> None:
        self._owned: dict[str, dict[str, Object]] = {}
        self._loose_of_label: dict[str, dict[str, Object]] = {}
        self._loose_in_namespace: dict[str, dict[str, Object]] = {}

    def owned_by(self, uid: str) -> list[Object]:
        """Return the pods whose controller has this uid, in the order in which the index first saw them."""
        return list(self._owned.get(uid, {}).values())

    def loose(self, job: Object) -> Iterable[Object]:
        """Return the pods without a controller that `job` might select."""
        if job["spec"].get("manualSelector"):
            return list(self._loose_in_namespace.get(job["metadata"]["namespace"], {}).values())
        return list(self._loose_of_label.get(job["metadata"]["uid"], {}).values())

    def take(self, change: Change) -> None:
        if change.old is not None:
            self._drop(change.old)
        if change.new is not None:
            self._put(change.new)

    def _put(self, pod: Object) -> None:
        for table, name in self._places(pod):
            table.setdefault(name, {})[key_of(pod)] = pod

    def _drop(self, pod: Object) -> None:
        for table, name in self._places(pod):
            members = table.get(name, {})
            members.pop(key_of(pod), None)
            if not members:
                table.pop(name, None)

    def _places(self, pod: Object) -> list[tuple[dict[str, dict[str, Object]], str]]:
        if (owner := controller_of(pod)) is not None:
            return [(self._owned, owner["uid"])]
        labels = pod["metadata"].get("labels") or {}
        wanted = labels.get(CONTROLLER_UID) or labels.get(_LEGACY_UID)
        places = [(self._loose_in_namespace, pod["metadata"]["namespace"])]
        return [*places, (self._loose_of_label, wanted)] if wanted else places


# --- label selectors --------------------------------------------------------------------------------------------------


def selects(selector: Mapping[str, Any] | None, labels: Mapping[str, str]) -> bool:
    """Return True if the selector matches the labels. An empty selector selects everything; None selects nothing."""
    if selector is None:
        return False
    wanted = selector.get("matchLabels") or {}
    if any(labels.get(key) != value for key, value in wanted.items()):
        return False
    return all(_meets(term, labels) for term in selector.get("matchExpressions") or ())


def _meets(term: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    value, values = labels.get(term["key"]), term.get("values") or ()
    match term["operator"]:
        case "In":
            return value is not None and value in values
        case "NotIn":
            return value is None or value not in values
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
        case _:
            return False


def as_query(selector: Mapping[str, Any]) -> str:
    """Return the selector in the form of the query parameter labelSelector."""
    terms = [f"{key}={value}" for key, value in (selector.get("matchLabels") or {}).items()]
    for term in selector.get("matchExpressions") or ():
        listed = ",".join(term.get("values") or ())
        match term["operator"]:
            case "In":
                terms.append(f"{term['key']} in ({listed})")
            case "NotIn":
                terms.append(f"{term['key']} notin ({listed})")
            case "Exists":
                terms.append(term["key"])
            case _:
                terms.append(f"!{term['key']}")
    return ",".join(terms)
