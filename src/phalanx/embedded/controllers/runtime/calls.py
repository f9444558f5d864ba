"""Call the API for the controllers. The module has one watch for each kind, a limit on concurrent calls, and caches
that every response updates. The response to a write updates the cache at once (`Informer.observe`, `forget`). This
update replaces the expectations of client-go: when a controller decides, the cache always contains the controller's own
writes, so no pod is created twice."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Any, Protocol, Self

from phalanx.client.connection import JSON_PATCH, MERGE_PATCH, STRATEGIC_PATCH, ApiRefusal, Connection, Object
from phalanx.client.informer import Informer, key_of
from phalanx.client.kind import Kind
from phalanx.embedded.controllers.runtime.pod_state import is_controlled_by

__all__ = [
    "JSON_PATCH",
    "MERGE_PATCH",
    "STRATEGIC_PATCH",
    "Calls",
    "Informers",
    "SharedInformers",
    "create_owned",
    "gone",
]

Informers = Callable[[Kind], Informer]


class Clock(Protocol):
    def __call__(self) -> float: ...


class SharedInformers:
    """Shared caches with one watch for each kind. Use `async with SharedInformers(connection) as informers`, then
    `informers(PODS)`."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._informers: dict[Kind, Informer] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def __call__(self, kind: Kind) -> Informer:
        """Return the informer of `kind`; its watch begins with the first call."""
        if kind not in self._informers:
            informer = self._informers[kind] = Informer(self._connection, kind)
            self._tasks.add(asyncio.get_running_loop().create_task(informer.run()))
        return self._informers[kind]


def gone(error: ApiRefusal) -> bool:
    """Return True if the API server refused a call because the object does not exist any more, or because another
    object now has its name."""
    return error.code == 404 or (error.code == 409 and "uid" in error.message.lower())


class Calls:
    """The API calls of all controllers: writes, and reads that do not use the caches."""

    def __init__(self, connection: Connection, informers: Informers, *, in_flight: int = 64) -> None:
        self._connection, self._informers = connection, informers
        self._room = asyncio.Semaphore(in_flight)
        self._caches: dict[Kind, Informer] = {}

    def cache(self, kind: Kind) -> Informer:
        """Return the shared informer of `kind`. From now on, responses about the kind update this informer."""
        if kind not in self._caches:
            self._caches[kind] = self._informers(kind)
        return self._caches[kind]

    def shares(self, kind: Kind) -> bool:
        """Return True if there is a cache of `kind` already."""
        return kind in self._caches

    def attach(self, kind: Kind, informer: Informer) -> None:
        """Let responses about `kind` also update an informer that only one controller uses."""
        self._caches[kind] = informer

    def detach(self, kind: Kind) -> None:
        self._caches.pop(kind, None)

    async def get(self, kind: Kind, name: str, namespace: str = "") -> Object:
        async with self._room:
            return self._told(kind, await self._connection.get(kind, name, namespace))

    async def list(self, kind: Kind, namespace: str = "", **params: str) -> list[Object]:
        async with self._room:
            items: list[Object] = (await self._connection.list(kind, namespace, **params))["items"]
        for item in items:
            self._told(kind, item)
        return items

    async def create(self, kind: Kind, body: Object, namespace: str = "") -> Object:
        async with self._room:
            return self._told(kind, await self._connection.create(kind, body, namespace))

    async def create_as(self, user: str, groups: Sequence[str], kind: Kind, body: Object, namespace: str) -> Object:
        """Create an object with the identity of this user, who needs the right to create it. Raises ApiError."""
        async with self._room:
            return self._told(kind, await self._connection.create(kind, body, namespace, acting=(user, *groups)))

    async def replace(self, kind: Kind, body: Object, subresource: str = "") -> Object:
        async with self._room:
            return self._told(kind, await self._connection.replace(kind, body, subresource))

    async def patch(
        self, kind: Kind, obj: Object, body: Any, *, subresource: str = "", content_type: str = MERGE_PATCH
    ) -> Object:
        meta = obj["metadata"]
        async with self._room:
            answer = await self._connection.patch(
                kind, meta["name"], body, meta.get("namespace", ""), subresource, content_type
            )
        return self._told(kind, answer)

    async def delete(
        self, kind: Kind, obj: Object, *, policy: str | None = None, grace_s: int | None = None, exact: bool = False
    ) -> None:
        """Delete the object if it still has this uid. `exact`: True to require the same resourceVersion as well. Raises
        ApiRefusal 404 or 409."""
        meta = obj["metadata"]
        conditions = {"uid": meta["uid"]} | ({"resourceVersion": meta["resourceVersion"]} if exact else {})
        body: Object = {"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": conditions}
        if policy is not None:
            body["propagationPolicy"] = policy
        if grace_s is not None:
            body["gracePeriodSeconds"] = grace_s
        try:
            async with self._room:
                answer = await self._connection.delete(kind, meta["name"], meta.get("namespace", ""), body)
        except ApiRefusal as refusal:
            if gone(refusal):
                self.forget(kind, obj)
            raise
        if answer.get("metadata", {}).get("uid") == meta["uid"] and "deletionTimestamp" in answer["metadata"]:
            self._told(kind, answer)
        else:
            self.forget(kind, obj)

    async def remove(self, kind: Kind, obj: Object, *, policy: str | None = "Background") -> None:
        """Delete the object. If the object does not exist any more, do nothing. Raises ApiError."""
        try:
            await self.delete(kind, obj, policy=policy)
        except ApiRefusal as refusal:
            if not gone(refusal):
                raise

    def forget(self, kind: Kind, obj: Object) -> None:
        """Remove `obj` from the cache, because the response to a call showed that it does not exist any more. The watch
        reports the deletion later."""
        if (informer := self._caches.get(kind)) is not None:
            known = informer.objects.get(key_of(obj))
            if known is not None and known["metadata"]["uid"] == obj["metadata"]["uid"]:
                informer.forget(known)

    async def request(self, method: str, path: str, body: object = None) -> Any:
        """Send a request that is not about a single object: for discovery, or to delete a collection."""
        async with self._room:
            return await self._connection.request(method, path, body=body)

    def _told(self, kind: Kind, answer: Object) -> Object:
        answer.setdefault("apiVersion", kind.api_version)
        answer.setdefault("kind", kind.name)
        if (informer := self._caches.get(kind)) is not None:
            informer.observe(answer)
        return answer


async def create_owned(calls: Calls, kind: Kind, body: Object, owner: Object) -> tuple[Object, bool]:
    """Create an object in the namespace of its owner, and return (object, True). If the owner already has an object
    with this name, return (that object, False), so that a step can be repeated.

    Raises ApiError if the server refuses the object, and ApiRefusal with the reason AlreadyExists if an object of
    another owner has the name."""
    name, namespace = body["metadata"]["name"], owner["metadata"]["namespace"]
    try:
        return await calls.create(kind, body, namespace), True
    except ApiRefusal as refusal:
        if refusal.reason != "AlreadyExists":
            raise
        there = await calls.get(kind, name, namespace)
        if not is_controlled_by(there, owner):
            raise
        return there, False
