"""The addresses of a service, as Endpoints and as EndpointSlices. Pure: a service and pods in, objects out.

A pod counts from when it has an address until it ends. It is ready if its condition says so and it is not being
deleted, or if the service publishes addresses that are not ready. Endpoints have no place for pods that are going;
slices say so.

Source: k8s.io/kubernetes/pkg/controller/endpoint and k8s.io/endpointslice; KEP-1672 (terminating endpoints).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from phalanx.client.connection import Object
from phalanx.client.kind import SERVICES
from phalanx.embedded.controllers.runtime.pod_state import is_deleting, is_ready, is_terminal, owner_reference

HEADLESS = "service.kubernetes.io/headless"
MANAGED_BY, SLICES_MANAGED_BY = "endpoints.kubernetes.io/managed-by", "endpointslice.kubernetes.io/managed-by"
ENDPOINTS_CONTROLLER, SLICE_CONTROLLER = "endpoint-controller", "endpointslice-controller.k8s.io"
SERVICE_NAME = "kubernetes.io/service-name"
MOST_IN_A_SLICE = 100  # --max-endpoints-per-slice of the real controller
_MOST_IN_ENDPOINTS = 1000
_OVER_CAPACITY = "endpoints.kubernetes.io/over-capacity"

Ports = tuple[tuple[str, int, str], ...]  # name, number, protocol


def selects(service: Object, pod: Object) -> bool:
    """Return True if the service selects the pod, in whatever state the pod is."""
    wanted = service["spec"].get("selector") or {}
    return bool(wanted) and wanted.items() <= (pod["metadata"].get("labels") or {}).items()


def subsets(service: Object, pods: Sequence[Object]) -> list[Object]:
    """Return the `subsets` of Endpoints: addresses grouped by the ports that they have."""
    early = bool(service["spec"].get("publishNotReadyAddresses"))
    grouped: dict[Ports, dict[str, list[Object]]] = {}
    for pod, ports in _members(service, pods):
        if is_deleting(pod) and not early:
            continue
        key = "addresses" if early or is_ready(pod) else "notReadyAddresses"
        address = {"ip": pod["status"]["podIP"], **_about(service, pod)}
        grouped.setdefault(ports, {}).setdefault(key, []).append(address)
    return [_cut({**addresses, **_ports_field(ports)}) for ports, addresses in sorted(grouped.items())]


def _cut(subset: Object) -> Object:
    """Return the subset with at most `_MOST_IN_ENDPOINTS` addresses; ready addresses are kept first."""
    ready = subset.get("addresses", [])[:_MOST_IN_ENDPOINTS]
    unready = subset.get("notReadyAddresses", [])[: _MOST_IN_ENDPOINTS - len(ready)]
    return {
        **({"addresses": ready} if ready else {}),
        **({"notReadyAddresses": unready} if unready else {}),
        **{key: value for key, value in subset.items() if key == "ports"},
    }


def endpoints(service: Object, pods: Sequence[Object]) -> Object:
    """Return the Endpoints of a service. The service owns them, so that they are deleted with it (the real ones have no
    owner)."""
    meta = service["metadata"]
    found = subsets(service, pods)
    labels = {**(meta.get("labels") or {}), MANAGED_BY: ENDPOINTS_CONTROLLER, **_headless(service)}
    made: Object = {
        "apiVersion": "v1",
        "kind": "Endpoints",
        "metadata": {
            "name": meta["name"],
            "namespace": meta["namespace"],
            "labels": labels,
            "ownerReferences": [owner_reference(SERVICES, service)],
        },
    }
    if sum(1 for _ in _members(service, pods)) > _MOST_IN_ENDPOINTS:
        made["metadata"]["annotations"] = {_OVER_CAPACITY: "truncated"}
    return made | ({"subsets": found} if found else {})


def slices(service: Object, pods: Sequence[Object]) -> list[Object]:
    """Return the contents of the EndpointSlices of a service, one at least; their names are not decided here."""
    grouped: dict[Ports, list[Object]] = {}
    for pod, ports in _members(service, pods):
        grouped.setdefault(ports, []).append(_endpoint(service, pod))
    found = [
        _slice(service, ports, members[start : start + MOST_IN_A_SLICE])
        for ports, members in sorted(grouped.items())
        for start in range(0, len(members), MOST_IN_A_SLICE)
    ]
    return found or [_slice(service, (), [])]


def _members(service: Object, pods: Sequence[Object]) -> Iterator[tuple[Object, Ports]]:
    """Yield the selected pods that have an address now, ordered by name, each with the service's ports on it."""
    for pod in sorted(pods, key=lambda one: str(one["metadata"]["name"])):
        if selects(service, pod) and not is_terminal(pod) and pod.get("status", {}).get("podIP"):
            yield pod, tuple(_ports(service, pod))


def _ports(service: Object, pod: Object) -> Iterator[tuple[str, int, str]]:
    """Yield the ports of the service on this pod. A named port that the pod does not have is left out."""
    for port in service["spec"].get("ports") or ():
        number, protocol = port.get("targetPort") or port["port"], port.get("protocol", "TCP")
        if isinstance(number, str):
            number = _named(pod, number, protocol)
        if number:
            yield port.get("name") or "", number, protocol


def _named(pod: Object, name: str, protocol: str) -> int:
    for container in pod["spec"].get("containers") or ():
        for port in container.get("ports") or ():
            if port.get("name") == name and port.get("protocol", "TCP") == protocol:
                return int(port["containerPort"])
    return 0


def _ports_field(ports: Ports, *, always_named: bool = False) -> Object:
    if not ports:
        return {}
    return {
        "ports": [
            {**({"name": name} if name or always_named else {}), "port": number, "protocol": protocol}
            for name, number, protocol in ports
        ]
    }


def _about(service: Object, pod: Object) -> Object:
    """Return the fields of an address that describe its pod."""
    meta, spec = pod["metadata"], pod["spec"]
    target = {"kind": "Pod", "namespace": meta["namespace"], "name": meta["name"], "uid": meta["uid"]}
    said: Object = {"targetRef": target}
    if spec.get("nodeName"):
        said["nodeName"] = spec["nodeName"]
    if spec.get("hostname") and spec.get("subdomain") == service["metadata"]["name"]:
        said["hostname"] = spec["hostname"]
    return said


def _endpoint(service: Object, pod: Object) -> Object:
    serving, terminating = is_ready(pod), is_deleting(pod)
    early = bool(service["spec"].get("publishNotReadyAddresses"))
    conditions = {"ready": early or (serving and not terminating), "serving": serving, "terminating": terminating}
    return {"addresses": [pod["status"]["podIP"]], "conditions": conditions, **_about(service, pod)}


def _slice(service: Object, ports: Ports, found: list[Object]) -> Object:
    meta = service["metadata"]
    own = {SERVICE_NAME: meta["name"], SLICES_MANAGED_BY: SLICE_CONTROLLER, **_headless(service)}
    return {
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {
            "generateName": f"{meta['name']}-",
            "namespace": meta["namespace"],
            "labels": {**(meta.get("labels") or {}), **own},
            "ownerReferences": [owner_reference(SERVICES, service)],
        },
        "addressType": "IPv4",
        "endpoints": found,
        **_ports_field(ports, always_named=True),
    }


def _headless(service: Mapping[str, Any]) -> Object:
    return {HEADLESS: ""} if service["spec"].get("clusterIP") == "None" else {}
