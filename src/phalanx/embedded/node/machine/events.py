"""Record Events like the kubelet. If an Event is reported again, its count is increased.

Events only inform users, so the loss of an Event does no harm. One task writes the Events from a bounded queue, and a
failed write is not repeated.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import time
from collections import OrderedDict

from phalanx.client.connection import ApiError, ApiRefusal, Connection, Object
from phalanx.client.kind import EVENTS
from phalanx.embedded.node.pod.status import at

log = logging.getLogger(__name__)

_QUEUE = 10_000
_REMEMBERED = 4096  # the number of latest Events that are remembered, so that a repeated Event increases a count


class Occurrences:
    """The queue of Events. `tell` adds an Event and never waits; `run` writes the Events until cancelled."""

    def __init__(self, connection: Connection, node: str) -> None:
        self._connection, self._node = connection, node
        self._queue: asyncio.Queue[tuple[Object, str, str, str, str, float]] = asyncio.Queue(_QUEUE)
        self._seen: OrderedDict[str, tuple[str, int]] = OrderedDict()  # object, reason and message -> event name, count

    def tell(self, about: Object, reason: str, message: str, *, kind: str = "Normal", container: str = "") -> None:
        """Queue an Event about an object. `container`: the fieldPath of the container that the Event is about, such as
        spec.containers{main}; "" for the whole object."""
        try:
            self._queue.put_nowait((about, kind, reason, message, container, time.time()))
        except asyncio.QueueFull:
            log.warning("too many events at once; dropped: %s %s", reason, message)

    async def run(self) -> None:
        while True:
            try:
                await self._write(*await self._queue.get())
            except ApiError as error:
                log.info("event not written: %s", error)

    async def _write(self, about: Object, kind: str, reason: str, message: str, part: str, now_s: float) -> None:
        meta = about["metadata"]
        space = meta.get("namespace") or "default"
        key = hashlib.sha256("\0".join((meta["uid"], kind, reason, message, part)).encode()).hexdigest()
        name, count = self._seen.get(key, ("", 0))
        if count:
            try:
                again = {"count": count + 1, "lastTimestamp": at(now_s)}
                await self._connection.patch(EVENTS, name, again, space)
                self._remember(key, name, count + 1)
                return
            except ApiRefusal as error:
                if error.code != 404:
                    raise
        name = f"{meta['name']}.{time.time_ns():x}"
        await self._connection.create(EVENTS, self._event(about, kind, reason, message, part, now_s, name), space)
        self._remember(key, name, 1)

    def _remember(self, key: str, name: str, count: int) -> None:
        self._seen[key] = (name, count)
        self._seen.move_to_end(key)
        if len(self._seen) > _REMEMBERED:
            self._seen.popitem(last=False)

    def _event(
        self, about: Object, kind: str, reason: str, message: str, part: str, now_s: float, name: str
    ) -> dict[str, object]:
        meta = about["metadata"]
        involved = {"apiVersion": about.get("apiVersion", "v1"), "kind": about.get("kind", "Pod"), "name": meta["name"]}
        involved["uid"] = meta["uid"]
        if "namespace" in meta:
            involved |= {"namespace": meta["namespace"], "resourceVersion": meta["resourceVersion"]}
        if part:
            involved["fieldPath"] = part
        return {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": name, "namespace": meta.get("namespace") or "default"},
            "involvedObject": involved,
            "type": kind,
            "reason": reason,
            "message": message,
            "source": {"component": "kubelet", "host": self._node},
            "reportingComponent": "kubelet",
            "reportingInstance": self._node,
            "firstTimestamp": at(now_s),
            "lastTimestamp": at(now_s),
            "count": 1,
        }
