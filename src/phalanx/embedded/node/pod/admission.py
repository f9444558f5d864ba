"""Decide whether a node admits a pod that was bound to it, like the kubelet (pkg/kubelet/lifecycle/predicate.go).

The API server accepts the binding of any pod to any node. The node rejects a pod that does not fit into its free
resources, or whose node affinity does not match the node. A rejected pod gets the final phase Failed, with the reason
and the message of the kubelet.

The second part computes the resources that a pod requests from its node, like the kubelet's admission.

The rule is PodRequests of k8s.io/component-helpers/resource. Containers run at the same time, so their requests are
added. Init containers run one after another, so only the largest request of an init container counts, plus the requests
of the sidecars that start before this container (KEP-753). If the pod has a pod-level request for a resource
(KEP-2837), this request replaces the sum for the resource. The pod's overhead is always added."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from phalanx.client.quantity import amount

Amounts = dict[str, int]  # resource -> amount: millicores of cpu, whole units of other resources
GPU = "nvidia.com/gpu"
_GUARANTEED_OOM, _WORST_OOM = -997, 1000  # oom_score_adj is between -1000 and 1000


def demand(spec: Mapping[str, Any]) -> Amounts:
    """Return the amounts that the pod requests. One unit of the resource `pods` is included. Raises QuantityError."""
    total: Amounts = {}
    for container in spec.get("containers") or ():
        _add(total, requests(container))
    peak: Amounts = {}
    sidecars: Amounts = {}
    for container in spec.get("initContainers") or ():
        asked = requests(container)
        if is_sidecar(container):
            _add(total, asked)
            _add(sidecars, asked)
            _raise(peak, sidecars)
        else:
            _add(asked, sidecars)
            _raise(peak, asked)
    _raise(total, peak)
    total.update(requests(spec))
    _add(total, {name: amount(name, text) for name, text in (spec.get("overhead") or {}).items()})
    total["pods"] = 1
    return total


def requests(container: Mapping[str, Any]) -> Amounts:
    """Return the requests of a container or pod. For a resource with a limit and no request, the limit counts as the
    request."""
    resources = container.get("resources") or {}
    both = {**(resources.get("limits") or {}), **(resources.get("requests") or {})}
    return {name: amount(name, text) for name, text in both.items()}


def limits(container: Mapping[str, Any]) -> Amounts:
    found = (container.get("resources") or {}).get("limits") or {}
    return {name: amount(name, text) for name, text in found.items()}


def oom_score(pod: Mapping[str, Any], container: Mapping[str, object], memory_bytes: int) -> int:
    """Return the container's oom_score_adj by the kubelet's rule (pkg/kubelet/qos/policy.go): if memory runs out, the
    kernel first kills containers with small memory requests. `memory_bytes`: the memory of the machine. Raises
    QuantityError."""
    match (pod.get("status") or {}).get("qosClass"):
        case "Guaranteed":
            return _GUARANTEED_OOM
        case "BestEffort":
            return _WORST_OOM
    found = _WORST_OOM - _WORST_OOM * requests(container).get("memory", 0) // max(1, memory_bytes)
    return min(max(found, _WORST_OOM + _GUARANTEED_OOM), _WORST_OOM - 1)


def every_container(spec: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return all containers of a pod: init containers, containers and ephemeral containers."""
    return [one for key in ("initContainers", "containers", "ephemeralContainers") for one in spec.get(key) or ()]


def field_path(pod: Mapping[str, Any], name: str) -> str:
    """Return the field path of the pod's container, as Events name it."""
    keys = ("initContainers", "ephemeralContainers")
    is_in = (key for key in keys if any(one["name"] == name for one in pod["spec"].get(key) or ()))
    return f"spec.{next(is_in, 'containers')}{{{name}}}"


def is_ephemeral(pod: Mapping[str, Any], name: str) -> bool:
    """Return True if the container is ephemeral, that is, if a user added it to the running pod for debugging."""
    return any(one["name"] == name for one in pod["spec"].get("ephemeralContainers") or ())


def is_sidecar(container: Mapping[str, object]) -> bool:
    """Return True if the init container is a sidecar, that is, if it runs at the same time as the main containers."""
    return container.get("restartPolicy") == "Always"


def _add(total: Amounts, more: Mapping[str, int]) -> None:
    for name, value in more.items():
        total[name] = total.get(name, 0) + value


def _raise(total: Amounts, floor: Mapping[str, int]) -> None:
    for name, value in floor.items():
        total[name] = max(total.get(name, 0), value)


Object = Mapping[str, Any]
_ORDER = ("pods", "cpu", "memory", "ephemeral-storage")


@dataclass(frozen=True, slots=True, kw_only=True)
class Rejection:
    """The rejection of a pod, with the `reason` and `message` for its status and for the Event."""

    reason: str
    message: str


def admit(pod: Object, node: Object, allocatable: Amounts, used: Amounts) -> Rejection | None:
    """Return the rejection of the pod; None if the node admits it. `allocatable`: the amounts that the agent offers.
    For a resource that only another program has added to the node's status, the amount in the status is used. `used`:
    the sum of the admitted pods' requests."""
    asked, told = demand(pod["spec"]), (node.get("status") or {}).get("allocatable") or {}
    for name in sorted(asked, key=lambda name: (_ORDER.index(name) if name in _ORDER else len(_ORDER), name)):
        if name not in allocatable and name not in told and _is_extended(name):
            continue  # the node does not know this resource (kubelet: removeMissingExtendedResources)
        has = allocatable[name] if name in allocatable else amount(name, told.get(name, "0"))
        if asked[name] > 0 and asked[name] + used.get(name, 0) > has:
            return _short(name, asked[name], used.get(name, 0), has)
    if not matches_node(pod["spec"], node):
        return _predicate("NodeAffinity", "node(s) didn't match Pod's node affinity/selector")
    if not _tolerates(pod["spec"], node):
        return _predicate("TaintToleration", "node(s) had taints that the pod didn't tolerate")
    return None


def _is_extended(name: str) -> bool:
    """Return True if the resource is an extended one: its name has a domain other than Kubernetes' own
    (IsExtendedResourceName)."""
    return "/" in name and "kubernetes.io/" not in name


def _short(name: str, asked: int, used: int, capacity: int) -> Rejection:
    detail = f"requested: {asked}, used: {used}, capacity: {capacity}"
    return Rejection(reason=f"OutOf{name}", message=f"Node didn't have enough resource: {name}, {detail}")


def _predicate(name: str, why: str) -> Rejection:
    return Rejection(reason=name, message=f"Predicate {name} failed: {why}")


# --- node affinity ----------------------------------------------------------------------------------------------------


def matches_node(spec: Object, node: Object) -> bool:
    """Return True if the node matches the pod's nodeSelector and at least one term of its required node affinity."""
    labels = node["metadata"].get("labels") or {}
    if any(labels.get(key) != value for key, value in (spec.get("nodeSelector") or {}).items()):
        return False
    affinity = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution")
    if required is None:
        return True
    fields = {"metadata.name": node["metadata"]["name"]}
    return any(_term(term, labels, fields) for term in required.get("nodeSelectorTerms") or ())


def _term(term: Object, labels: Mapping[str, str], fields: Mapping[str, str]) -> bool:
    """Return True if the node matches the term. A term without any expression matches no node."""
    on_labels, on_fields = term.get("matchExpressions") or (), term.get("matchFields") or ()
    if not on_labels and not on_fields:
        return False
    return all(_expression(one, labels) for one in on_labels) and all(_expression(one, fields) for one in on_fields)


def _expression(one: Object, labels: Mapping[str, str]) -> bool:
    found, values = labels.get(one["key"]), one.get("values") or []
    match one["operator"]:
        case "In":
            return found in values
        case "NotIn":
            return found not in values
        case "Exists":
            return found is not None
        case "DoesNotExist":
            return found is None
        case "Gt" | "Lt" as operator:
            return _compare(found, operator, values)
        case _:
            return False


def _compare(found: str | None, operator: str, values: list[str]) -> bool:
    try:
        left, right = int(found or ""), int(values[0])
    except (ValueError, IndexError):
        return False
    return left > right if operator == "Gt" else left < right


def _tolerates(spec: Object, node: Object) -> bool:
    """Return True if the pod tolerates the NoExecute taints of the node. Like the kubelet, the node checks only
    NoExecute taints; the scheduler checks all other taints."""
    taints = [taint for taint in node.get("spec", {}).get("taints") or () if taint["effect"] == "NoExecute"]
    return all(any(_covers(one, taint) for one in spec.get("tolerations") or ()) for taint in taints)


def _covers(toleration: Object, taint: Object) -> bool:
    if toleration.get("effect") not in (None, "", taint["effect"]):
        return False
    if toleration.get("operator") == "Exists":
        return toleration.get("key") in (None, "", taint["key"])
    same = toleration.get("value", "") == taint.get("value", "")
    return bool(toleration.get("key") == taint["key"] and same)
