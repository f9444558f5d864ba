"""Compute the resource requests of a pod as kube-scheduler does, in Phalanx's units, and write amounts as quantities of
the Kubernetes API without loss.

The request of a pod for a resource is the sum of the requests of its containers and sidecars. If an init container and
the sidecars before it together request more, their sum is used instead. The pod's overhead is added. (The source is
k8s.io/component-helpers/resource.PodRequests.)"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Any

from phalanx.client.quantity import QuantityError, amount
from phalanx.model.pod import CPU, Amount

Asked = dict[str, int]


def pod_requests(spec: Mapping[str, Any]) -> Asked:
    """Return the amount that the pod requests of each resource (cpu in millicores, others in whole units). Invalid
    quantities count as 0."""
    sidecars: Asked = {}
    most: Asked = {}
    for one in spec.get("initContainers") or ():
        if one.get("restartPolicy") == "Always":
            sidecars = _sum(sidecars, container_requests(one))
            most = _most(most, sidecars)
        else:
            most = _most(most, _sum(sidecars, container_requests(one)))
    total = sidecars
    for one in spec.get("containers") or ():
        total = _sum(total, container_requests(one))
    return _sum(_most(total, most), amounts(spec.get("overhead")))


def container_requests(container: Mapping[str, Any]) -> Asked:
    """Return the requests of a container. If a resource has a limit but no request, the limit is used as its
    request."""
    resources = container.get("resources") or {}
    return amounts({**(resources.get("limits") or {}), **(resources.get("requests") or {})})


def amounts(written: object) -> Asked:
    """Return a ResourceList of the Kubernetes API in Phalanx's units. Invalid quantities are left out. Negative
    quantities count as 0."""
    found: Asked = {}
    for resource, text in (written if isinstance(written, Mapping) else {}).items():
        try:
            found[str(resource)] = max(0, amount(str(resource), text))
        except (QuantityError, TypeError):
            continue
    return found


def _sum(one: Asked, other: Asked) -> Asked:
    return {name: one.get(name, 0) + other.get(name, 0) for name in one | other}


def _most(one: Asked, other: Asked) -> Asked:
    return {name: max(one.get(name, 0), other.get(name, 0)) for name in one | other}


_SUFFIXES = ((6, "Ei"), (5, "Pi"), (4, "Ti"), (3, "Gi"), (2, "Mi"), (1, "Ki"))


def quantity(resource: str, value: Amount) -> str:
    """Return `value` (cpu in millicores, others in whole units) as a quantity of the Kubernetes API. A number of bytes
    gets the largest suffix (Ki, Mi, ...) that divides it without remainder."""
    if isinstance(value, Fraction) and value.denominator != 1:
        return f"{value * 1000}m"
    if resource == CPU:
        return f"{value}m" if value % 1000 else str(value // 1000)
    if resource in {"memory", "ephemeral-storage"} or resource.startswith("hugepages-"):
        for power, suffix in _SUFFIXES:
            if value and value % 1024**power == 0:
                return f"{value // 1024**power}{suffix}"
    return str(value)
