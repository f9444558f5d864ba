"""Report the warnings of a worker about a copy and its pods as Events of the job on the manager.

A copy is in trouble if it has failed. A copy is also in trouble if it has not started, or some of its pods are not
ready, `LATE_S` after the job's start was decided. Then the Events about the copy and about up to `PODS_ASKED` of its
pods are listed, at most once in `AGAIN_S`. Each warning is reported once, and at most `MOST` warnings for one start. So
a job without trouble causes no call and no Event."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager
from typing import Any, NamedTuple

from phalanx.client.connection import ApiRefusal, Connection
from phalanx.client.kind import EVENTS

LATE_S, AGAIN_S = 60.0, 55.0
MOST, PODS_ASKED, LISTED = 5, 3, 20
_LONGEST, _KEPT = 300, 4096  # maximum numbers: of characters in a message; of starts whose warnings are kept
_REASON = re.compile(r"[A-Za-z][A-Za-z0-9]{0,63}")

Object = Mapping[str, Any]
_Calls = Callable[[], AbstractAsyncContextManager[Connection]]


class CopyLook(NamedTuple):
    """A copy to check for trouble. `start`: the uid of the job, and the text that identifies the job's start
    (`content.start_of`). `begun_s`: when the start was decided (seconds since the epoch)."""

    start: tuple[str, str]
    begun_s: float
    copied: Object
    suspended: bool

    def is_in_trouble(self, now_s: float) -> bool:
        status = self.copied.get("status") or {}
        conditions = status.get("conditions") or ()
        ends = {one.get("type") for one in conditions if isinstance(one, dict) and one.get("status") == "True"}
        if "Failed" in ends:
            return True
        if ends & {"Complete", "Completed", "Succeeded"} or now_s - self.begun_s < LATE_S:
            return False
        active, ready = status.get("active"), status.get("ready") or 0
        return self.suspended or (isinstance(active, int) and active > ready)


class Echo:
    """The reported warnings of all workers. `now_s`: a function that returns the seconds since the epoch."""

    def __init__(self, now_s: Callable[[], float]) -> None:
        self._now_s = now_s
        self._reported: dict[tuple[str, str], set[tuple[str, str]]] = {}  # (uid, start) -> its reported warnings
        self._asked_s: dict[tuple[str, str], float] = {}

    async def warnings(self, look: CopyLook, pods: Iterable[Object], calls: _Calls) -> list[tuple[str, str]]:
        """Return (reason, message) of each warning that is not reported yet. `pods`: the worker's pods. `calls`: a
        function that returns the context manager of one call to the worker."""
        now_s, start, copied = self._now_s(), look.start, look.copied
        if not look.is_in_trouble(now_s) or now_s - self._asked_s.get(start, -AGAIN_S) < AGAIN_S:
            return []
        self._asked_s[start] = now_s
        known, fresh = self._reported.setdefault(start, set()), list[tuple[str, str]]()
        self._drop_oldest()
        for uid in (str(copied["metadata"]["uid"]), *_uids(copied, pods)):
            async with calls() as link:
                found = await _listed(link, str(copied["metadata"]["namespace"]), uid)
            fresh += [each for each in dict.fromkeys(found) if each not in known and each not in fresh]
        fresh = fresh[: MOST - len(known)]
        known.update(fresh)
        return fresh

    def _drop_oldest(self) -> None:
        while len(self._reported) > _KEPT:
            oldest = next(iter(self._reported))
            del self._reported[oldest]
            self._asked_s.pop(oldest, None)


def _uids(copied: Object, pods: Iterable[Object]) -> Iterator[str]:
    """Yield the uids of pods of the copy that are not ready, at most `PODS_ASKED`."""
    found = 0
    for pod in pods:
        owners = pod["metadata"].get("ownerReferences") or ()
        if any(owner.get("uid") == copied["metadata"]["uid"] for owner in owners) and not _is_ready(pod):
            yield str(pod["metadata"]["uid"])
            found += 1
        if found == PODS_ASKED:
            return


def _is_ready(pod: Object) -> bool:
    conditions = (pod.get("status") or {}).get("conditions") or ()
    return any(one.get("type") == "Ready" and one.get("status") == "True" for one in conditions)


async def _listed(link: Connection, namespace: str, uid: str) -> list[tuple[str, str]]:
    """Return (reason, message) of each warning about an object; nothing if the user may not list Events."""
    try:
        found = await link.list(EVENTS, namespace, fieldSelector=f"involvedObject.uid={uid}", limit=str(LISTED))
    except ApiRefusal:
        return []
    return [_plain(one) for one in found.get("items") or () if one.get("type") == "Warning"]


def _plain(event: Object) -> tuple[str, str]:
    """Return the reason and the message of an Event, cut to a limit and without control characters."""
    reason, message = str(event.get("reason") or ""), str(event.get("message") or "")
    text = "".join(one if one.isprintable() else " " for one in message[:_LONGEST])
    return (reason if _REASON.fullmatch(reason) else "Warning"), text
