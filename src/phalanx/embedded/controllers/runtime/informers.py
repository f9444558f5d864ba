"""Shared caches: one watch per kind for all who ask, running as long as the set is open."""

from __future__ import annotations

import asyncio
from types import TracebackType
from typing import Self

from phalanx.client.connection import Connection
from phalanx.client.informer import Informer
from phalanx.client.kind import Kind


class SharedInformers:
    """Use as `async with SharedInformers(connection) as informers: … informers(PODS)`."""

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
        """The informer of `kind`; its watch begins with the first call."""
        if kind not in self._informers:
            informer = self._informers[kind] = Informer(self._connection, kind)
            self._tasks.add(asyncio.get_running_loop().create_task(informer.run()))
        return self._informers[kind]
