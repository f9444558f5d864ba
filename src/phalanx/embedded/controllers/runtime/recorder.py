"""Write Events for users, with few API calls.

Events of one time window are combined before they are written. Equal messages become one Event with a count. If there
are more than `_SIMILAR` different messages with the same reason and object, they become one Event "(combined from
similar events)", as in client-go's correlator. If an Event is repeated, only its count is changed by a PATCH. The write
rate is limited, and the oldest Events are dropped when too many are queued, because no component depends on Events.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import secrets
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

from phalanx.client.connection import ApiError, Object
from phalanx.client.informer import Informer
from phalanx.client.kind import EVENTS
from phalanx.client.moment import write_moment
from phalanx.embedded.controllers.runtime.calls import Calls, Clock

log = logging.getLogger(__name__)

BROKEN = "ReconcileError"  # the `reason` of an Event about an object that a controller cannot reconcile
COMBINED = "(combined from similar events): "
_SIMILAR = 3  # the maximum number of messages with one reason that are written separately
_MOST_WAITING = 10_000
_MOST_REMEMBERED = 4096
_FORGOTTEN_AFTER_S = 600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Topic:
    """The properties that similar Events share: the controller, the object, the type and the reason."""

    component: str
    kind: str
    api_version: str
    namespace: str
    name: str
    uid: str
    type: str
    reason: str


@dataclass(slots=True, kw_only=True)
class Written:
    """An Event that exists on the server."""

    event: Object
    count: int
    at_s: float


class EventRecorder:
    """The queue of Events. `tell` adds an Event, returns at once and never fails; `run` writes the Events."""

    def __init__(
        self, calls: Calls, *, window_s: float = 1.0, writes_per_s: float = 100.0, clock: Clock = time.time
    ) -> None:
        self._calls, self._clock = calls, clock
        self._window_s, self._pause_s = window_s, 1.0 / writes_per_s
        self._waiting: OrderedDict[Topic, dict[str, int]] = OrderedDict()
        self._written: OrderedDict[tuple[Topic, str], Written] = OrderedDict()

    def tell(self, component: str, about: Object, type: str, reason: str, message: str) -> None:
        """Queue an Event about an object. `type`: Normal or Warning. The message is shortened to 1024 characters, the
        limit of the API."""
        meta = about["metadata"]
        topic = Topic(
            component=component,
            kind=about["kind"],
            api_version=about["apiVersion"],
            namespace=meta.get("namespace", ""),
            name=meta["name"],
            uid=meta["uid"],
            type=type,
            reason=reason,
        )
        counts = self._waiting.setdefault(topic, {})
        counts[message[:1024]] = counts.get(message[:1024], 0) + 1
        if len(self._waiting) > _MOST_WAITING:
            self._waiting.popitem(last=False)

    async def run(self) -> None:
        """Write the queued Events until cancelled."""
        while True:
            await asyncio.sleep(self._window_s)
            for topic in list(itertools.islice(self._waiting, 1000)):
                for message, count in combined(self._waiting.pop(topic, {})):
                    await self._write(topic, message, count)
                    await asyncio.sleep(self._pause_s)

    async def _write(self, topic: Topic, message: str, count: int) -> None:
        stem = COMBINED if message.startswith(COMBINED) else message
        now_s, known = self._clock(), self._written.get((topic, stem))
        try:
            if known is not None and now_s - known.at_s < _FORGOTTEN_AFTER_S:
                body = {"count": known.count + count, "lastTimestamp": write_moment(now_s), "message": message}
                await self._calls.patch(EVENTS, known.event, body)
                known.count, known.at_s = known.count + count, now_s
                return
            event = await self._calls.create(
                EVENTS, event_of(topic, message, count, now_s), topic.namespace or "default"
            )
        except ApiError as error:
            self._written.pop((topic, stem), None)
            log.debug("event %s of %s/%s: %s", topic.reason, topic.namespace, topic.name, error)
            return
        self._written[topic, stem] = Written(event=event, count=count, at_s=now_s)
        if len(self._written) > _MOST_REMEMBERED:
            self._written.popitem(last=False)


def combined(counts: dict[str, int]) -> list[tuple[str, int]]:
    """Return the messages to write, with their counts: all messages if there are at most `_SIMILAR`, otherwise one
    combined message with the newest text."""
    if len(counts) <= _SIMILAR:
        return list(counts.items())
    return [(COMBINED + next(reversed(counts)), sum(counts.values()))]


def event_of(topic: Topic, message: str, count: int, now_s: float) -> Object:
    """Return an Event of the core group, in the form in which kube-controller-manager writes it."""
    namespace = topic.namespace or "default"
    about = {"apiVersion": topic.api_version, "kind": topic.kind, "name": topic.name, "uid": topic.uid}
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": f"{topic.name[:230]}.{secrets.token_hex(8)}", "namespace": namespace},
        "involvedObject": about | ({"namespace": topic.namespace} if topic.namespace else {}),
        "type": topic.type,
        "reason": topic.reason,
        "message": message,
        "source": {"component": topic.component},
        "reportingComponent": topic.component,
        "reportingInstance": "",
        "firstTimestamp": write_moment(now_s),
        "lastTimestamp": write_moment(now_s),
        "eventTime": None,
        "count": count,
    }


def marking(
    recorder: EventRecorder, cache: Informer, component: str = "controllermanager"
) -> Callable[[str, Exception], None]:
    """Return a function for `WorkQueue.on_defect`. This function records an Event on the object with the given key. The
    Event states that the controller cannot reconcile the object."""

    def mark(key: str, error: Exception) -> None:
        if (about := cache.objects.get(key)) is not None:
            recorder.tell(component, about, "Warning", BROKEN, broken_message(error))

    return mark


def broken_message(error: Exception) -> str:
    return f"the controller cannot handle it, and tries again: {type(error).__name__}: {error}"
