"""The namespace controller. When a namespace is deleted, it deletes the content of the namespace, and then removes the
finalizer of the namespace, so that the API server can remove it.

The controller deletes the objects of each kind as a collection. Objects with finalizers stay until other controllers
remove these finalizers. Until then, the conditions of the namespace state which objects remain
(k8s.io/kubernetes/pkg/controller/namespace/deletion).

The second part, `AccountController`, creates the default objects of every namespace: the service account `default`, and
the ConfigMap `kube-root-ca.crt` with the certificate of the API's authority. Pods verify the API server with this
certificate.

Source: k8s.io/kubernetes/pkg/controller/serviceaccount and pkg/controller/certificates/rootcacertpublisher."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from phalanx.client.connection import ApiError, ApiRefusal, Object
from phalanx.client.informer import Change, key_of
from phalanx.client.kind import CONFIG_MAPS, NAMESPACES, SERVICE_ACCOUNTS, Kind
from phalanx.client.moment import write_moment
from phalanx.embedded.controllers.runtime.calls import Calls, Clock
from phalanx.embedded.controllers.runtime.discovery import Catalog, discover
from phalanx.embedded.controllers.runtime.pod_state import is_deleting
from phalanx.embedded.controllers.runtime.reconciler import Retry, WorkQueue

FINALIZER = "kubernetes"


@dataclass(frozen=True, slots=True, kw_only=True)
class Remains:
    """The objects of a namespace that still exist after the request to delete all objects: their numbers by kind and by
    finalizer, and the errors."""

    kinds: Counter[str] = field(default_factory=Counter)
    finalizers: Counter[str] = field(default_factory=Counter)
    failures: tuple[str, ...] = ()

    @property
    def nothing(self) -> bool:
        return not self.kinds and not self.failures


class NamespaceController:
    """The controller of terminating namespaces. Call `start`, then run `queue`."""

    def __init__(
        self, calls: Calls, *, retry: Retry | None = None, again_s: float = 1.0, clock: Clock = time.time
    ) -> None:
        self._calls, self._again_s, self._clock = calls, again_s, clock
        self._namespaces = calls.cache(NAMESPACES)
        self.queue = WorkQueue("namespace", self._look, workers=4, retry=retry)

    def start(self) -> None:
        self._namespaces.subscribe(self._changed)

    def _changed(self, change: Change) -> None:
        if change.new is not None and is_deleting(change.new) and (change.old is None or not is_deleting(change.old)):
            self.queue.add(key_of(change.new))

    async def _look(self, name: str) -> None:
        namespace = self._namespaces.objects.get(name)
        if namespace is None or FINALIZER not in (namespace.get("spec", {}).get("finalizers") or ()):
            return
        remains = await self._empty(name, await discover(self._calls))
        await self._write_conditions(namespace, remains)
        if remains.nothing:
            await self._finalize(namespace)
        else:
            self.queue.add_after(name, self._again_s)

    async def _empty(self, name: str, catalog: Catalog) -> Remains:
        kinds = catalog.deletable_in_namespaces()
        results = await asyncio.gather(*(self._empty_of(kind, name, catalog) for kind in kinds))
        left, finalizers, failures = Counter[str](), Counter[str](), []
        for kind, result in zip(kinds, results, strict=True):
            if isinstance(result, ApiError):
                failures.append(str(result))
            elif result:
                left[f"{kind.plural}.{kind.group}"] += len(result)
                finalizers.update(one for obj in result for one in obj["metadata"].get("finalizers") or ())
        return Remains(kinds=left, finalizers=finalizers, failures=tuple(failures))

    async def _empty_of(self, kind: Kind, name: str, catalog: Catalog) -> list[Object] | ApiError:
        """Request the deletion of all objects of a kind in the namespace. Return the objects that still exist, or the
        error."""
        try:
            items = await self._calls.list(kind, name)
            if not items:
                return []
            if "deletecollection" in catalog.verbs[kind]:
                await self._calls.request("DELETE", kind.path(name))
            else:
                for item in items:
                    await self._delete_one(kind, item)
            return await self._calls.list(kind, name)
        except ApiError as error:
            return error

    async def _delete_one(self, kind: Kind, item: Object) -> None:
        try:
            await self._calls.delete(kind, item, policy="Background")
        except ApiRefusal as refusal:
            if refusal.code not in {404, 409}:
                raise

    async def _write_conditions(self, namespace: Object, remains: Remains) -> None:
        now = write_moment(self._clock())
        before = namespace.get("status", {}).get("conditions") or []
        if remains.nothing and not before:
            return  # the namespace will be removed at once, so no client would read its conditions
        conditions = merged(before, conditions_of(remains), now)
        if conditions != before:
            status = {**namespace.get("status", {}), "conditions": conditions}
            await self._replace({**namespace, "status": status}, "status")

    async def _finalize(self, namespace: Object) -> None:
        fresh = self._namespaces.objects.get(namespace["metadata"]["name"])
        if fresh is not None:
            left = [one for one in fresh["spec"].get("finalizers") or () if one != FINALIZER]
            await self._replace({**fresh, "spec": {**fresh["spec"], "finalizers": left}}, "finalize")

    async def _replace(self, namespace: Object, subresource: str) -> None:
        name = namespace["metadata"]["name"]
        try:
            answer = await self._calls.replace(NAMESPACES, namespace, subresource)
        except ApiRefusal as refusal:
            if refusal.code == 409:
                await self._calls.get(NAMESPACES, name)
                self.queue.add_after(name, 0.05)
            elif refusal.code != 404:
                raise
            return
        if subresource == "finalize" and not answer["spec"].get("finalizers"):
            self._calls.forget(NAMESPACES, namespace)


def conditions_of(remains: Remains) -> list[dict[str, str]]:
    """Return the five conditions of a terminating namespace, without their times."""
    kinds = ", ".join(f"{name} has {count} resource instances" for name, count in sorted(remains.kinds.items()))
    holders = ", ".join(f"{name} in {count} resource instances" for name, count in sorted(remains.finalizers.items()))
    failed = f"Failed to delete all resource types, {len(remains.failures)} remaining: "
    return [
        _condition(
            "NamespaceDeletionDiscoveryFailure", "", "ResourcesDiscovered", "All resources successfully discovered"
        ),
        _condition(
            "NamespaceDeletionGroupVersionParsingFailure",
            "",
            "ParsedGroupVersions",
            "All legacy kube types successfully parsed",
        ),
        _condition(
            "NamespaceDeletionContentFailure",
            failed + ", ".join(sorted(remains.failures)) if remains.failures else "",
            "ContentDeletionFailed" if remains.failures else "ContentDeleted",
            "All content successfully deleted, may be waiting on finalization",
        ),
        _condition(
            "NamespaceContentRemaining",
            kinds and f"Some resources are remaining: {kinds}",
            "SomeResourcesRemain" if kinds else "ContentRemoved",
            "All content successfully removed",
        ),
        _condition(
            "NamespaceFinalizersRemaining",
            holders and f"Some content in the namespace has finalizers remaining: {holders}",
            "SomeFinalizersRemain" if holders else "ContentHasNoFinalizers",
            "All content-preserving finalizers finished",
        ),
    ]


def _condition(kind: str, trouble: str, reason: str, fine: str) -> dict[str, str]:
    return {"type": kind, "status": "True" if trouble else "False", "reason": reason, "message": trouble or fine}


def merged(before: list[dict[str, Any]], after: list[dict[str, str]], now: str) -> list[dict[str, Any]]:
    """Return the conditions `before`, in which each condition is replaced by the condition of the same type in `after`.
    A condition gets the transition time `now` if its status has changed; otherwise it keeps its transition time."""
    known = {entry["type"]: entry for entry in before}
    result: list[dict[str, object]] = []
    for entry in after:
        old = known.pop(entry["type"], None)
        same = old is not None and old["status"] == entry["status"]
        result.append({**entry, "lastTransitionTime": old["lastTransitionTime"] if old is not None and same else now})
    return [*known.values(), *result]


DEFAULT, ROOT_CA = "default", "kube-root-ca.crt"


class AccountController:
    """The controller of the default objects of namespaces. Call `start`, then run `queue`. `root_ca`: the certificate
    (PEM) to publish; "": none is published."""

    def __init__(self, calls: Calls, root_ca: str, *, retry: Retry | None = None) -> None:
        self._calls, self._root_ca = calls, root_ca
        self._namespaces = calls.cache(NAMESPACES)
        self.queue = WorkQueue("service accounts", self._look, workers=4, retry=retry)

    def start(self) -> None:
        self._namespaces.subscribe(self._changed)

    def _changed(self, change: Change) -> None:
        if change.new is not None and change.old is None and not is_deleting(change.new):
            self.queue.add(key_of(change.new))

    async def _look(self, name: str) -> None:
        if self._root_ca:
            await self._make(SERVICE_ACCOUNTS, DEFAULT, name)
            await self._make(CONFIG_MAPS, ROOT_CA, name, {"data": {"ca.crt": self._root_ca}})

    async def _make(self, kind: Kind, name: str, namespace: str, content: Object | None = None) -> None:
        """Create the object if it does not exist. An existing object is not changed, because an older certificate of
        the same authority is still valid."""
        body = {"apiVersion": kind.api_version, "kind": kind.name, "metadata": {"name": name}, **(content or {})}
        try:
            await self._calls.create(kind, body, namespace)
        except ApiRefusal as error:
            if error.code not in (403, 404, 409):  # the namespace is terminating or deleted
                raise
