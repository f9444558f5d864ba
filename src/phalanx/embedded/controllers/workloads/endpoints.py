"""Keep the Endpoints and EndpointSlices of services up to date. The first part computes these objects from a service
and its pods, without side effects.

A pod is included from the time when it has an address until it ends. Its address is ready if the pod has the condition
Ready and is not being deleted, or if the service publishes addresses that are not ready. Endpoints do not include
terminating pods; EndpointSlices mark them as terminating.

Source: k8s.io/kubernetes/pkg/controller/endpoint and k8s.io/endpointslice; KEP-1672 (terminating endpoints).

The second part is the controller. It writes Endpoints and EndpointSlices for every service with a selector. For a
service without a selector, the user writes these objects.

The pods of a gang become ready one after the other, so the controller collects changes for a short time. The service
owns the objects of both kinds, so they are deleted with the service. Source:
k8s.io/kubernetes/pkg/controller/{endpoint,endpointslice}."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import zip_longest
from typing import Any

from phalanx.client.connection import Object
from phalanx.client.informer import Change, key_of
from phalanx.client.kind import ENDPOINT_SLICES, ENDPOINTS, PODS, SERVICES, Kind
from phalanx.embedded.controllers.runtime.pod_state import (
    controller_of,
    is_deleting,
    is_ready,
    is_terminal,
    owner_reference,
)
from phalanx.embedded.controllers.runtime.reconciler import ControllerContext, Reconciler

HEADLESS = "service.kubernetes.io/headless"
MANAGED_BY, SLICES_MANAGED_BY = "endpoints.kubernetes.io/managed-by", "endpointslice.kubernetes.io/managed-by"
ENDPOINTS_CONTROLLER, SLICE_CONTROLLER = "endpoint-controller", "endpointslice-controller.k8s.io"
SERVICE_NAME = "kubernetes.io/service-name"
MOST_IN_A_SLICE = 100  # the default of kube-controller-manager's --max-endpoints-per-slice
_MOST_IN_ENDPOINTS = 1000
_OVER_CAPACITY = "endpoints.kubernetes.io/over-capacity"

Ports = tuple[tuple[str, int, str], ...]  # name, number, protocol


def selects(service: Object, pod: Object) -> bool:
    """Return True if the service selects the pod. The state of the pod is not checked."""
    wanted = service["spec"].get("selector") or {}
    return bool(wanted) and wanted.items() <= (pod["metadata"].get("labels") or {}).items()


def subsets(service: Object, pods: Sequence[Object]) -> list[Object]:
    """Return the field `subsets` of Endpoints: the addresses, grouped by their ports."""
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
    """Return the subset with at most `_MOST_IN_ENDPOINTS` addresses. If it has more, addresses that are not ready are
    removed first."""
    ready = subset.get("addresses", [])[:_MOST_IN_ENDPOINTS]
    unready = subset.get("notReadyAddresses", [])[: _MOST_IN_ENDPOINTS - len(ready)]
    return {
        **({"addresses": ready} if ready else {}),
        **({"notReadyAddresses": unready} if unready else {}),
        **{key: value for key, value in subset.items() if key == "ports"},
    }


def endpoints(service: Object, pods: Sequence[Object]) -> Object:
    """Return the Endpoints of a service. The service owns these Endpoints, so that they are deleted with the service
    (in Kubernetes, Endpoints have no owner)."""
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
    """Return the contents of the EndpointSlices of a service, at least one. The caller chooses their names."""
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
    """Yield the selected pods that have an address now, ordered by name, each with the ports of the service on this
    pod."""
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


COMPONENT = "endpoint-slice-controller"
_GATHER_S = 0.1
_Table = dict[str, dict[str, Object]]


class ServiceController(Reconciler):
    kind, component, owns = SERVICES, COMPONENT, (ENDPOINTS, ENDPOINT_SLICES)

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self._pods: _Table = {}  # namespace -> key -> pod
        self._services: _Table = {}
        self._slices: _Table = {}  # uid of the service -> key -> slice
        for kind, subscriber in (
            (PODS, self._pod_changed),
            (SERVICES, lambda change: _take_in(self._services, change, _space)),
            (ENDPOINT_SLICES, lambda change: _take_in(self._slices, change, _owner)),
        ):
            self._calls.cache(kind).subscribe(subscriber)

    def _pod_changed(self, change: Change) -> None:
        _take_in(self._pods, change, _space)
        one = change.new or change.old
        assert one is not None  # a change always has an old or a new object
        for key, service in self._services.get(_space(one), {}).items():
            if any(pod is not None and selects(service, pod) for pod in (change.old, change.new)):
                self.queue.add_after(key, _GATHER_S)

    async def reconcile(self, service: Object) -> None:
        if not service["spec"].get("selector") or service["spec"].get("type") == "ExternalName":
            return
        await self._calls.cache(PODS).synced.wait()
        pods = list(self._pods.get(_space(service), {}).values())
        wanted = endpoints(service, pods)
        await self._keep(ENDPOINTS, self._calls.cache(ENDPOINTS).objects.get(key_of(wanted)), wanted, ("subsets",))
        there = sorted(self._slices.get(service["metadata"]["uid"], {}).values(), key=key_of)
        for old, new in zip_longest(there, slices(service, pods)):
            await self._keep(ENDPOINT_SLICES, old, new, ("endpoints", "ports"))

    async def _keep(self, kind: Kind, found: Object | None, wanted: Object | None, fields: tuple[str, ...]) -> None:
        """Create the wanted object, or update the `fields` of the object `found`. Delete `found` if `wanted` is None.
        Raises ApiError."""
        if wanted is None:
            if found is not None:
                await self._calls.remove(kind, found, policy=None)
        elif found is None:
            await self._calls.create(kind, wanted, _space(wanted))
        elif not _says(found, wanted, fields):
            meta = {key: wanted["metadata"][key] for key in ("labels", "ownerReferences")}
            rest = {key: value for key, value in found.items() if key not in fields}
            said = {field: wanted[field] for field in fields if field in wanted}
            await self._calls.replace(kind, {**rest, **said, "metadata": {**found["metadata"], **meta}})


def _says(found: Object, wanted: Object, fields: tuple[str, ...]) -> bool:
    same = all((found.get(field) or []) == (wanted.get(field) or []) for field in fields)
    return same and (found["metadata"].get("labels") or {}) == wanted["metadata"]["labels"]


def _space(obj: Object) -> str:
    return str(obj["metadata"]["namespace"])


def _owner(obj: Object) -> str:
    owner = controller_of(obj)
    return str(owner["uid"]) if owner is not None and owner["kind"] == SERVICES.name else ""


def _take_in(table: _Table, change: Change, place: Callable[[Object], str]) -> None:
    """Apply a change of an object to a table. `place`: a function that returns the table key of an object."""
    if change.old is not None:
        members = table.get(place(change.old), {})
        members.pop(key_of(change.old), None)
        if not members:
            table.pop(place(change.old), None)
    if change.new is not None:
        table.setdefault(place(change.new), {})[key_of(change.new)] = change.new
