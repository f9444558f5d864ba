"""The object caches of one process: one list and one watch for each kind, shared by all parts of the process."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from types import MappingProxyType

from phalanx.client.connection import Connection
from phalanx.client.informer import Informer
from phalanx.client.kind import Kind


class Informers:
    """Creates one cache for each kind: `informers(kind)` returns the cache of this kind. Caches run as tasks of
    `group`; if a cache fails, the group ends with its error. `lean`: kind -> a type; the cache of this kind keeps only
    the fields that the type has, to save memory. `namespace`: the namespace in which namespaced kinds are listed; ""
    for all namespaces."""

    def __init__(
        self,
        connection: Connection,
        group: asyncio.TaskGroup,
        lean: Mapping[Kind, type] = MappingProxyType({}),
        namespace: str = "",
    ) -> None:
        self._connection, self._group, self._lean, self._namespace = connection, group, lean, namespace
        self._caches: dict[Kind, Informer] = {}
        self._tasks: list[asyncio.Task[None]] = []

    def __call__(self, kind: Kind) -> Informer:
        if kind not in self._caches:
            space = self._namespace if kind.namespaced else ""
            cache = self._caches[kind] = Informer(self._connection, kind, namespace=space, lean=self._lean.get(kind))
            self._tasks.append(self._group.create_task(cache.run(), name=f"watch {kind.plural}"))
        return self._caches[kind]

    def stop(self) -> None:
        """Cancel all watches, so that the task group can end."""
        for task in self._tasks:
            task.cancel()
