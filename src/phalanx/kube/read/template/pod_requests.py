"""The requests of a pod, counted exactly as kube-scheduler and the kubelet do.

The rule is `PodRequests` of k8s.io/component-helpers/resource: containers run at the same time, so their requests add
up; init containers run one after the other, so the largest counts, each together with the sidecars (init containers
with restartPolicy Always) started before it; pod-level resources (KEP-2837) override the resources that they name; the
RuntimeClass' overhead is added. During an in-place resize (KEP-1287) the largest of the requested, the allocated and
the running amounts counts, unless the kubelet has reported the resize as infeasible. A container with a limit and no
request requests its limit. The API server applies this default to pods, not to templates, so this module applies it to
both.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from phalanx.client.quantity import amount
from phalanx.model.pod import PODS, Amounts, amounts

Spec = Mapping[str, Any]
Sums = dict[str, int]

_NONE: Mapping[str, Any] = {}


def pod_requests(spec: Spec, status: Mapping[str, Any] = _NONE) -> Amounts:
    """Return the requests of one pod, with 1 of the resource `pods`. Raises QuantityError for an invalid quantity."""
    running = _statuses(status)
    stuck = _infeasible(status)
    total: Sums = {}
    for container in spec.get("containers", ()):
        _add(total, _container(container, running.get(container.get("name")), stuck))
    _raise(total, _start_up(spec, running, stuck, total))
    level = spec.get("resources")
    if level:
        total.update(_requests(level))
    _add(total, {name: amount(name, text) for name, text in (spec.get("overhead") or _NONE).items()})
    total[PODS] = 1
    return amounts(total)


def _start_up(spec: Spec, running: Mapping[str, Any], stuck: bool, total: Sums) -> Sums:
    """Return the peak while init containers run, and add the sidecars among them to `total`, because they keep
    running."""
    peak: Sums = {}
    sidecars: Sums = {}
    for container in spec.get("initContainers", ()):
        demand = _container(container, running.get(container.get("name")), stuck)
        if container.get("restartPolicy") == "Always":
            _add(total, demand)
            _add(sidecars, demand)
            _raise(peak, sidecars)
        else:
            _add(demand, sidecars)
            _raise(peak, demand)
    return peak


def _container(container: Spec, state: Mapping[str, Any] | None, stuck: bool) -> Sums:
    asked = _requests(container.get("resources") or _NONE)
    if not state:
        return asked
    actual = (state.get("resources") or _NONE).get("requests") or _NONE
    allocated = state.get("allocatedResources") or _NONE
    if not actual and not allocated:
        return asked
    whole: Sums = {} if stuck else asked
    for known in (actual, allocated):
        _raise(whole, {name: amount(name, text) for name, text in known.items()})
    return whole


def _requests(resources: Mapping[str, Any]) -> Sums:
    both = {**(resources.get("limits") or _NONE), **(resources.get("requests") or _NONE)}
    return {name: amount(name, text) for name, text in both.items()}


def _statuses(status: Mapping[str, Any]) -> Mapping[str, Any]:
    found = {}
    for field in ("containerStatuses", "initContainerStatuses"):
        for state in status.get(field) or ():
            if "allocatedResources" in state or "resources" in state:
                found[state["name"]] = state
    return found


def _infeasible(status: Mapping[str, Any]) -> bool:
    return any(
        condition["type"] == "PodResizePending" and condition.get("reason") == "Infeasible"
        for condition in status.get("conditions") or ()
    )


def _add(total: Sums, more: Mapping[str, int]) -> None:
    for name, value in more.items():
        total[name] = total.get(name, 0) + value


def _raise(total: Sums, other: Mapping[str, int]) -> None:
    for name, value in other.items():
        if value > total.get(name, 0):
            total[name] = value
