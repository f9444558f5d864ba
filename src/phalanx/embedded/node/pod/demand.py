"""What a pod asks of its node, as the kubelet's admission counts it.

The rule is PodRequests of k8s.io/component-helpers/resource: containers run side by side and add up; init containers
run one after another, so the largest counts, together with the sidecars started before it (KEP-753); resources of the
pod as a whole (KEP-2837) override what they name; overhead comes on top.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from phalanx.client.quantity import amount

Amounts = dict[str, int]  # resource -> millicores for cpu, whole units else
GPU = "nvidia.com/gpu"
_GUARANTEED_OOM, _WORST_OOM = -997, 1000  # oom_score_adj goes from -1000 to 1000


def demand(spec: Mapping[str, Any]) -> Amounts:
    """Return the pod's demands, its one `pods` included. Raises QuantityError."""
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
    """Return the requests of a container or pod. A limit without a request counts as the request."""
    resources = container.get("resources") or {}
    both = {**(resources.get("limits") or {}), **(resources.get("requests") or {})}
    return {name: amount(name, text) for name, text in both.items()}


def limits(container: Mapping[str, Any]) -> Amounts:
    found = (container.get("resources") or {}).get("limits") or {}
    return {name: amount(name, text) for name, text in found.items()}


def oom_score(pod: Mapping[str, Any], container: Mapping[str, Any], memory_bytes: int) -> int:
    """Return the container's oom_score_adj by the kubelet's rule (pkg/kubelet/qos/policy.go): the smaller the memory
    request, the earlier the kernel kills it. `memory_bytes`: the memory of the machine. Raises QuantityError."""
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


def is_sidecar(container: Mapping[str, Any]) -> bool:
    """Return True if the init container is a sidecar: it keeps running beside the containers."""
    return container.get("restartPolicy") == "Always"


def _add(total: Amounts, more: Mapping[str, int]) -> None:
    for name, value in more.items():
        total[name] = total.get(name, 0) + value


def _raise(total: Amounts, floor: Mapping[str, int]) -> None:
    for name, value in floor.items():
        total[name] = max(total.get(name, 0), value)
