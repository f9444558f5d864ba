"""Implement the protocol `Effects`: the writes and other operations that gangs request. One `Writer` sends the writes
of all gangs, and one `EventReporter` sends their Events."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping

from phalanx.client.connection import Connection, Object
from phalanx.client.informer import Informer
from phalanx.client.kind import Kind
from phalanx.kube.capacity.definition_overlay import DefinitionOverlay
from phalanx.kube.capacity.node_allocations import NodeAllocations
from phalanx.kube.gang.effects import GangTimeouts, Member
from phalanx.kube.read.pod import Pod
from phalanx.kube.read.records import RecordKey
from phalanx.kube.write.events import EventReporter, ReportRate
from phalanx.kube.write.job_patch import JobWrites
from phalanx.kube.write.pod_effects import PodWrites
from phalanx.kube.write.writer import Writer
from phalanx.model.event import Event
from phalanx.model.node import Flavor

_AGAIN_S, _MOST_S = 5.0, 300.0  # the pause after the first refusal, and the longest pause


class ApiEffects:
    """The implementation of `Effects` by requests to the API server. `tell`: a function that passes an event to the
    core. `conclude`: a function that reconciles a gang after the answer to one of its writes."""

    def __init__(
        self,
        api: Connection,
        informers: Callable[[Kind], Informer],
        *,
        allocations: NodeAllocations,
        overlay: DefinitionOverlay,
        flavors: Mapping[str, Flavor],
        timeouts: GangTimeouts,
        report_rate: ReportRate,
        asks_autoscalers: bool,
        writes: int,
        clock: Callable[[], float],
        fence: Callable[[], float] | None,
        key: RecordKey | None,
        tell: Callable[[Event], None],
        conclude: Callable[[str], None],
    ) -> None:
        """Connect gangs to the API. `writes`: the number of concurrent writes. `clock`: a function that returns seconds
        since the epoch. `fence`: a function that returns the event loop's time after which no write may be sent; None
        if no other scheduler runs. `key`: the key with which the records of starts are signed. `asks_autoscalers`:
        False if Phalanx requests nodes itself, so that no autoscaler adds nodes for the same pods."""
        self.allocations, self.timeouts = allocations, timeouts
        self.writer = Writer(api, fence, writes)
        self.may_write = _may_write(fence)
        self.reporter = EventReporter(
            api,
            clock,
            report_rate,
            self.may_write,
            is_busy=lambda: self.writer.unsent > 0,
            asks_autoscalers=asks_autoscalers,
        )
        self.jobs = JobWrites(self.writer, informers, flavors, conclude, key)
        self.pods = PodWrites(self.writer, informers, conclude, key, overlay)
        self.now_s, self.emit_event, self._conclude = clock, tell, conclude
        self.drop_wait_reason = self.reporter.forget
        self._told: dict[str, set[str]] = {}  # uid of an object -> the texts that were already reported about it

    def report(self, about: Member, reason: str, text: str, *, warning: bool = False) -> None:
        if not (isinstance(about, Pod) and about.stands_in):  # the dialect reports on the object of a stand-in
            self.reporter.event(about, reason, text, warning=warning)

    def annotate(self, about: Member, word: str, text: str) -> None:
        """Write an annotation of Phalanx on a member of a gang."""
        if isinstance(about, Pod):
            self.pods.annotate(about, word, text)
        else:
            self.jobs.annotate(about, word, text)

    def tell_invalid(self, kind: Kind, obj: Object, why: str) -> None:
        """Record an Event on the object with the error because of which the scheduler cannot read it. Each text is
        reported only once."""
        if self._is_new(obj, why):
            self.reporter.object_event(kind, obj["metadata"], "Invalid", why, warning=True)

    def tell_unused(self, kind: Kind, obj: Object, what: str) -> None:
        """Report to users that a setting of the object has no effect in this installation. Each text is reported only
        once."""
        if self._is_new(obj, what):
            self.reporter.object_event(kind, obj["metadata"], "NoEffect", what)

    def _is_new(self, obj: Object, text: str) -> bool:
        told = self._told.setdefault(obj["metadata"]["uid"], set())
        if text in told:
            return False
        told.add(text)
        return True

    def retry_later(self, gang: str, refusals: int, call: Callable[[], None]) -> None:
        def again() -> None:
            call()
            self._conclude(gang)

        asyncio.get_running_loop().call_later(min(_MOST_S, _AGAIN_S * 2.0 ** min(refusals - 1, 10)), again)


def _may_write(fence: Callable[[], float] | None) -> Callable[[], bool]:
    if fence is None:
        return lambda: True
    return lambda: asyncio.get_running_loop().time() < fence()
