"""Report why each job waits, and limit the number of writes, so that the API server of a large cluster is not
overloaded.

A queued job causes no writes while its reason for waiting stays the same. When the *code* of its reason changes, and
the job still waits a moment later, the newest reason is written once. A Job gets the reason as an annotation, an
unbound pod gets it as its `PodScheduled` condition, and one Event reports it. Autoscalers add nodes for a pod whose
condition has the reason `Unschedulable`. The condition gets this reason in one case: more nodes would help, Phalanx
requests no nodes itself, and the quotas admit the gang together with all other gangs for which more nodes would help.
Otherwise the reason of the pod's condition is `PhalanxQueued`. The pod's condition is written again whenever this
reason changes. A job that waits for another cluster gets only the Event, so that it causes few writes (decision 73). If
its object already has a reason from an earlier return to the queue, that reason is updated as well. An object may be
written three times in a row and then once a minute (a token bucket, as client-go has for Events), and the rate of
writes to all objects together is limited as well. A newer reason replaces an older one that was not written yet. The
command line shows the full text with its numbers.

These reports are best effort: a report that fails is not repeated before the next change of the reason.
"""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections import deque
from collections.abc import Callable, Collection, Coroutine, Iterator
from dataclasses import dataclass
from math import isfinite
from typing import Any, NamedTuple
from uuid import uuid4

from phalanx.client.connection import STRATEGIC_PATCH, ApiError, Connection, Object
from phalanx.client.kind import EVENTS, PODS, Kind
from phalanx.client.moment import write_moment
from phalanx.kube.gang.lifecycle.gang import GangLifecycle
from phalanx.kube.gang.lifecycle.stages import Waiting
from phalanx.kube.read import labels
from phalanx.kube.read.pod import Pod
from phalanx.kube.read.workload.batch_job import BatchJob
from phalanx.model.reason import Reason, ReasonCode

log = logging.getLogger(__name__)

_AT_ONCE = 64  # the maximum number of concurrent writes about one gang
_LONGEST = 1024  # characters, the API's limit for the text of an Event; longer texts are cut
_FOR_PROGRAMS = ("enough_s", "reservation")  # the numbers of a reason that are written on Jobs, for Slurm's commands


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportRate:
    """Limits on the rate of reports. `settle_s`: a reason is written only when the job has had it for this many
    seconds. `brief_s`: like `settle_s`, but for reasons that usually disappear within seconds. `per_object_s`: the
    seconds between two writes to one object, after the first `burst` writes. `writes_per_s`: the largest number of
    writes a second to all objects together. `events_kept`: the largest number of queued Events; when there are more,
    the oldest are dropped. `late_s`: the longest time in seconds for which an Event may wait while other writes are
    sent first."""

    settle_s: float = 1.0
    brief_s: float = 10.0
    per_object_s: float = 60.0
    burst: int = 3
    writes_per_s: float = 20.0
    events_kept: int = 10_000
    late_s: float = 10.0


class _Report(NamedTuple):
    """A reason that must be written. `asks`: True if the pod's condition gets the reason `Unschedulable`, so that
    autoscalers may add nodes. `sent`: True if another cluster runs the job."""

    about: BatchJob | Pod
    reason: Reason
    asks: bool
    sent: bool


class EventReporter:
    """Write reasons and Events. `waits` and `event` return at once, and `run` sends the writes until it is cancelled.
    `may_write`: a function that returns False after the leader's deadline. `is_busy`: a function that returns whether
    other writes, such as bindings, wait to be sent. An Event costs the API server as much as a binding, so Events are
    sent after the other writes. `asks_autoscalers`: False if Phalanx requests nodes itself, so that no autoscaler adds
    nodes for the same pods. `on_demand`: the queues for which Phalanx always requests nodes itself. `admitted`: a
    function that gets gangs, and returns the gangs among them that fit into the quotas together."""

    on_demand: frozenset[str] = frozenset()

    def __init__(
        self,
        api: Connection,
        clock: Callable[[], float],
        budget: ReportRate | None = None,
        may_write: Callable[[], bool] = lambda: True,
        is_busy: Callable[[], bool] = lambda: False,
        *,
        asks_autoscalers: bool = True,
    ) -> None:
        self._asks_autoscalers = asks_autoscalers
        self._api, self._clock, self._budget, self._may_write = api, clock, budget or ReportRate(), may_write
        self._is_busy = is_busy
        self.admitted: Callable[[Collection[str]], frozenset[str]] = frozenset
        self._newest: dict[str, tuple[float, GangLifecycle, Reason]] = {}  # gang id -> (time, gang, reason)
        self._written: dict[str, dict[str, tuple[str, float]]] = {}  # gang id -> uid -> (key, when the bucket is full)
        self._helped: dict[str, tuple[GangLifecycle, Reason]] = {}  # gangs that could start if there were more nodes
        self._judged: frozenset[str] = frozenset()  # the gangs in the last call of `admitted`
        self._asking: frozenset[str] = frozenset()  # the gangs that this call returned
        self._judge_at_s = 0.0  # the earliest time of the next call, on the monotonic clock
        self._events: deque[Object] = deque(maxlen=self._budget.events_kept)
        self._queued_s: deque[float] = deque(maxlen=self._budget.events_kept)  # when each Event was queued
        self._wake = asyncio.Event()

    def waits(self, gang: GangLifecycle, reason: Reason) -> None:
        since_s, _, known = self._newest.get(gang.id, (self._clock(), gang, reason))
        self._newest[gang.id] = (since_s if known.code is reason.code else self._clock(), gang, reason)
        if reason.more_nodes_help and self._may_ask(gang) and gang.objects.pods:
            self._helped[gang.id] = gang, reason
        else:
            self._helped.pop(gang.id, None)
        self._wake.set()

    def forget(self, gang: str) -> None:
        """Record that the gang no longer waits."""
        self._newest.pop(gang, None)
        self._written.pop(gang, None)
        self._helped.pop(gang, None)

    def event(self, about: BatchJob | Pod, reason: str, text: str, *, warning: bool = False) -> None:
        meta = {"namespace": about.namespace, "name": about.name, "uid": _uid(about)}
        self.object_event(_kind(about), meta, reason, text, warning=warning)

    def object_event(self, kind: Kind, meta: Object, reason: str, text: str, *, warning: bool = False) -> None:
        """Queue an Event about an object. `meta`: the metadata of the object. An Event about a cluster-scoped object
        gets the namespace `default`, as in Kubernetes."""
        now_s = self._clock()
        now = write_moment(now_s)
        space = meta.get("namespace") or "default"
        event: Object = {
            "apiVersion": EVENTS.api_version,
            "kind": EVENTS.name,
            "metadata": {"name": f"{meta['name']}.{uuid4().hex[:16]}", "namespace": space},
            "involvedObject": {
                "apiVersion": kind.api_version,
                "kind": kind.name,
                **{part: meta[part] for part in ("namespace", "name", "uid") if part in meta},
            },
            "reason": reason,
            "message": text[:_LONGEST],
            "type": "Warning" if warning else "Normal",
            "source": {"component": labels.SCHEDULER_NAME},
            "firstTimestamp": now,
            "lastTimestamp": now,
            "count": 1,
        }
        self._events.append(event)
        self._queued_s.append(now_s)
        self._wake.set()

    async def run(self) -> None:
        pause_s = 1.0 / self._budget.writes_per_s
        while True:
            self._wake.clear()
            # Write on all pods of a gang at the same time, so that an autoscaler sees all of them together.
            for gang in list(self._due()):
                for some in (gang[at : at + _AT_ONCE] for at in range(0, len(gang), _AT_ONCE)):
                    await asyncio.gather(*(self._send(self._say(*each)) for each in some))
                await asyncio.sleep(pause_s * len(gang))
            while self._events and not self._lets_others_go():
                event, _ = self._events.popleft(), self._queued_s.popleft()
                await self._send(self._api.create(EVENTS, event, event["metadata"]["namespace"]))
                await asyncio.sleep(pause_s / 5)
            try:
                is_due = self._newest or self._events or self._helped
                async with asyncio.timeout(self._budget.settle_s if is_due else None):
                    await self._wake.wait()
                await asyncio.sleep(self._budget.settle_s)  # several changes in quick succession cause one Event
            except TimeoutError:
                continue

    # --- internal -------------------------------------------------------------------------------------------------

    def _lets_others_go(self) -> bool:
        """Return True if other writes (such as bindings) must be sent before the oldest Event."""
        return self._is_busy() and self._clock() - self._queued_s[0] < self._budget.late_s

    def _due(self) -> Iterator[list[_Report]]:
        """Yield the reasons that must be written now, gang by gang. Discard a reason that is already written on all
        objects of its gang."""
        now_s, most_s = self._clock(), self._budget.per_object_s * (self._budget.burst - 1)
        self._judge()
        for name, (since_s, gang, reason) in list(self._newest.items()):
            settle_s = self._budget.brief_s if reason.brief else self._budget.settle_s
            if now_s - since_s < settle_s or (name in self._helped and name not in self._judged):
                continue
            asks = name in self._helped and name in self._asking
            later, written, due = False, self._written.setdefault(name, {}), []
            for about in _waiting(gang):
                code, full_s = written.get(_uid(about), (_said(about), 0.0))
                if code == (key := _key(about, reason, asks)):
                    continue
                if full_s - now_s > most_s:
                    later = True
                    continue
                written[_uid(about)] = (key, max(now_s, full_s) + self._budget.per_object_s)
                due.append(_Report(about, reason, asks, _is_sent(gang)))
            if not later:
                del self._newest[name]
            if due:
                yield due

    def _may_ask(self, gang: GangLifecycle) -> bool:
        """Return True if an autoscaler may add nodes for the gang's pods."""
        return self._asks_autoscalers and not _is_sent(gang) and gang.queue not in self.on_demand

    def _judge(self) -> None:
        """Find the gangs for which autoscalers may add nodes: these are waiting gangs that more nodes would help, and
        that fit into the quotas together. If the result for a gang has changed, queue its reason to be written again.
        The check takes at most a twentieth of the scheduler's time."""
        began_s = time.monotonic()
        if began_s < self._judge_at_s or not (self._helped or self._asking):
            return
        asking = self.admitted(self._helped) if self._helped else frozenset()
        for name in self._helped.keys() & (asking ^ self._asking):
            self._newest.setdefault(name, (0.0, *self._helped[name]))
        self._judged, self._asking = frozenset(self._helped), asking
        self._judge_at_s = began_s + 20 * (time.monotonic() - began_s)

    async def _say(self, about: BatchJob | Pod, reason: Reason, asks: bool, sent: bool) -> None:
        meta: Object = {"uid": _uid(about), "resourceVersion": about.resource_version}
        text = f"{reason.code}: {reason.text}"[:_LONGEST]
        if sent and not _has_reason(about):
            self.event(about, "Queued", text)
            return
        if isinstance(about, BatchJob):
            self.event(about, "Queued", text)
            notes = {labels.REASON: text, labels.REASON_NUMBERS: _numbers(reason)}
            body: Object = {"metadata": {"uid": _uid(about), "annotations": notes}}
            await self._api.patch(
                about.adapter.kind, about.name, body, about.namespace, fieldManager=labels.FIELD_MANAGER
            )
            return
        self.event(about, "FailedScheduling", text, warning=True)
        condition = {
            "type": "PodScheduled",
            "status": "False",
            "reason": labels.UNSCHEDULABLE if asks else "PhalanxQueued",
            "message": text,
            "lastTransitionTime": write_moment(self._clock()),
        }
        # The patch names the pod's version in the cache. So it fails if the pod has been bound since then, and a bound
        # pod is never reported as unscheduled.
        body = {"metadata": meta, "status": {"conditions": [condition]}}
        await self._api.patch(PODS, about.name, body, about.namespace, "status", STRATEGIC_PATCH)

    async def _send(self, call: Coroutine[Any, Any, Any]) -> None:
        if not self._may_write():
            call.close()
            return
        try:
            await call
        except ApiError as error:
            log.debug("not reported: %s", error)


def _numbers(reason: Reason) -> str | None:
    """Return the reason's numbers that Slurm's commands read, as JSON. If the reason has no such numbers, return None,
    so that the annotation with the numbers of an earlier reason is removed."""
    known = {name: reason.numbers.get(name) for name in _FOR_PROGRAMS}
    found = {name: one for name, one in known.items() if isinstance(one, str) or (one is not None and isfinite(one))}
    return json.dumps(found) if found else None


def _has_reason(about: BatchJob | Pod) -> bool:
    """Return True if a reason was written on the object when its gang returned to the queue. This reason must be
    updated, because it may be outdated."""
    return isinstance(about, BatchJob) and labels.REASON in about.options


def _is_sent(gang: GangLifecycle) -> bool:
    """Return whether another cluster runs the gang, so that the gang cannot use nodes of this cluster."""
    return gang.spec is not None and gang.spec.sent


def _uid(about: BatchJob | Pod) -> str:
    """Return the uid of the pod, or of the object that contains the Job. One object may contain several roles of a
    framework's job."""
    return about.object_uid if isinstance(about, BatchJob) else about.uid


def _kind(about: BatchJob | Pod) -> Kind:
    return about.adapter.kind if isinstance(about, BatchJob) else PODS


def _key(about: BatchJob | Pod, reason: Reason, asks: bool) -> str:
    """Return a text that changes when the reason must be written again. It contains the code of the reason and, while
    the job waits for new nodes, a note about these nodes. For a pod, it also states whether autoscalers may add
    nodes."""
    note = str(reason.numbers.get("note") or "") if reason.code is ReasonCode.WAITING_FOR_NODES else ""
    asked = labels.UNSCHEDULABLE if asks and isinstance(about, Pod) else ""
    return " ".join(part for part in (str(reason.code), asked, note) if part)


def _said(about: BatchJob | Pod) -> str:
    """Return the code of the reason that the object already has, for example from an earlier scheduler process."""
    return about.options.get(labels.REASON, "").partition(":")[0] if isinstance(about, BatchJob) else about.waits_for


def _waiting(gang: GangLifecycle) -> Iterator[BatchJob | Pod]:
    """Yield the objects on which the reason must be written: the Jobs of a pending gang, and its unbound pods. Pods of
    two kinds are left out, because another program reports on them: pods that another scheduler binds, and
    stand-ins."""
    if isinstance(gang.state, Waiting):
        yield from (job for job in list(gang.objects.jobs.values()) if job.ours and not job.finished)
    unbound = (pod for pod in list(gang.objects.pods.values()) if not pod.node and not pod.going)
    yield from (pod for pod in unbound if not (pod.pinned or pod.stands_in))
