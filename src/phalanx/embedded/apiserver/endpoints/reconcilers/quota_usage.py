"""Write the usage of ResourceQuotas into their `status`. Users and schedulers read this status; admission does not.

After writes in a namespace, the controller waits for a moment and then counts the usage once for all these writes. It
does not write a status that has not changed.

Source: k8s.io/kubernetes/pkg/controller/resourcequota.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Iterator

from phalanx.embedded.apimachinery.meta.resource import Object, Resource, User
from phalanx.embedded.apimachinery.meta.status import StatusError
from phalanx.embedded.apiserver.admission import resource_quota
from phalanx.embedded.apiserver.auth.rbac import MASTERS
from phalanx.embedded.apiserver.endpoints.decoding import Intent
from phalanx.embedded.apiserver.endpoints.parts.committed import Committed
from phalanx.embedded.apiserver.endpoints.write import ObjectWriter
from phalanx.embedded.apiserver.registry.routing import Registry, RouteTarget
from phalanx.embedded.apiserver.storage.store import Event, Store, decode

KEY = ("", "resourcequotas")
_PAUSE_S = 1.0
_MANAGER = "resourcequota-controller"
_BY = Intent(user=User(name=f"system:serviceaccount:kube-system:{_MANAGER}", groups=(MASTERS,)), manager=_MANAGER)
_log = logging.getLogger(__name__)


class QuotaUsage:
    """Keeps the status of quotas up to date. The caller calls `start` before the first request."""

    def __init__(self, store: Store, registry: Registry, writer: ObjectWriter) -> None:
        self._store, self._registry, self._writer = store, registry, writer
        self._due: set[str] = set()  # the namespaces whose usage must be counted
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Count the usage of all quotas, because some may not have been counted before the server ended."""
        self._store.subscribe(self._heard)
        self._look_at({namespace for namespace, _, _ in self._store.walk(KEY)})

    def _heard(self, events: Iterable[Event]) -> None:
        self._look_at({event.namespace for event in events if self._store.count(KEY, event.namespace)})

    def _look_at(self, namespaces: set[str]) -> None:
        self._due |= namespaces
        if self._due and self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._count())
            self._task.add_done_callback(self._ended)

    def stop(self) -> None:
        """Stop counting. The server calls this method when it shuts down."""
        if self._task is not None:
            self._task.cancel()

    async def _count(self) -> None:
        await asyncio.sleep(_PAUSE_S)
        due, self._due = self._due, set()
        for namespace in sorted(due):
            for stored in self._store.scan(KEY, namespace):
                try:
                    await self._update(decode(stored.data))
                except StatusError as error:  # the next write in the namespace, or the next start, repeats the count
                    _log.warning("the usage of a quota is not written yet: %s", error)
                except Exception:  # a defect of Phalanx must not stop the count of other quotas
                    _log.exception(
                        "the usage of a quota was not counted: %s/%s", namespace, stored.obj["metadata"]["name"]
                    )

    def _ended(self, task: asyncio.Task[None]) -> None:
        """Start the next count, unless the server shuts down."""
        self._task = None
        if not task.cancelled():
            self._look_at(set())

    async def _update(self, quota: Object) -> None:
        resource = self._registry.find(KEY[0], "v1", KEY[1])
        assert resource is not None  # the kind is built in
        meta, held = quota["metadata"], Committed(self._store).held(quota["metadata"]["namespace"])
        used = resource_quota.total_usage(quota, held, lambda key: self._objects(key, meta["namespace"]))
        status = {"hard": quota["spec"].get("hard") or {}, "used": used}
        if status == quota.get("status"):
            return
        target = RouteTarget(
            resource=resource,
            namespace=meta["namespace"],
            name=meta["name"],
            subresource=resource.subresource("status"),
        )
        try:
            await self._writer.update(target, quota | {"status": status}, _BY)
        except StatusError as error:
            if error.code not in (404, 409):  # the quota was deleted or changed, and that event triggers another count
                raise

    def _objects(self, key: tuple[str, str], namespace: str) -> Iterator[tuple[Resource, Object]]:
        resource = self._registry.find(key[0], "v1", key[1])
        assert resource is not None  # the kind is built in
        return ((resource, stored.obj) for stored in self._store.scan(key, namespace))
