"""Keeps Endpoints and EndpointSlices of every service that selects pods; those of others are their authors' to write.

Pods of a gang become ready one after the other, so changes are gathered for a moment. Both kinds are owned by their
service and go with it. Source: k8s.io/kubernetes/pkg/controller/{endpoint,endpointslice}.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import zip_longest

from phalanx.client.connection import Object
from phalanx.client.informer import Change, key_of
from phalanx.client.kind import ENDPOINT_SLICES, ENDPOINTS, PODS, SERVICES, Kind
from phalanx.embedded.controllers.runtime.pod_state import controller_of
from phalanx.embedded.controllers.runtime.reconciler import ControllerContext, Reconciler
from phalanx.embedded.controllers.workloads.endpoints import endpoints, selects, slices

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
        assert one is not None  # a change has at least one side
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
        """Create the wanted object, or update the `fields` of the existing one; delete that if `wanted` is None. Raises
        ApiError."""
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
    """Apply a change of an object to a table. `place`: returns the key of the table under which an object belongs."""
    if change.old is not None:
        members = table.get(place(change.old), {})
        members.pop(key_of(change.old), None)
        if not members:
            table.pop(place(change.old), None)
    if change.new is not None:
        table.setdefault(place(change.new), {})[key_of(change.new)] = change.new
