"""The base of the controllers of one kind: reconcile an object when it, or an object that it controls, changes.

A controller defines how to reconcile one object (`reconcile`); this loop decides when. Terminating objects are left to
the garbage collector. If a kind is not served yet, because its definition is missing, `run` waits for it, and no other
controller is delayed.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from phalanx.client.connection import ApiRefusal, Object
from phalanx.client.informer import Change, key_of
from phalanx.client.kind import PODS, Kind
from phalanx.embedded.controllers.runtime.calls import Calls, Clock, gone
from phalanx.embedded.controllers.runtime.pod_index import OwnerPodIndex
from phalanx.embedded.controllers.runtime.pod_state import controller_of, is_deleting
from phalanx.embedded.controllers.runtime.recorder import EventRecorder, marking
from phalanx.embedded.controllers.runtime.work_queue import Retry, WorkQueue

_AGAIN_S = 0.1  # the pause after a status that another writer has changed in the meantime


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerContext:
    """The dependencies that the controllers of a process share. `pods` and `jobs` find the pods and the Jobs that an
    object controls."""

    calls: Calls
    recorder: EventRecorder
    pods: OwnerPodIndex = field(default_factory=OwnerPodIndex)
    jobs: OwnerPodIndex = field(default_factory=OwnerPodIndex)
    retry: Retry | None = None
    clock: Clock = time.time


class Reconciler(ABC):
    """Call `start`, then `run`. `component`: the source of its Events. `owns`: the kinds of controlled objects; their
    changes are collected for `gather_s`, because a reconciliation reads all of an object's controlled objects.
    `reads`: further kinds that decisions depend on; no object is reconciled before they are listed."""

    kind: Kind
    component: str
    owns: tuple[Kind, ...] = (PODS,)
    reads: tuple[Kind, ...] = ()
    gather_s = 0.0

    def __init__(self, context: ControllerContext) -> None:
        self._calls, self._recorder, self._clock = context.calls, context.recorder, context.clock
        self._index = context.pods
        self._cache = self._calls.cache(self.kind)
        self.queue = WorkQueue(self.kind.name, self._look, workers=4, retry=context.retry)
        self.queue.on_defect = marking(self._recorder, self._cache, self.component)

    @abstractmethod
    async def reconcile(self, obj: Object, /) -> None:
        """Take the next step from the present state of the cluster to the state that the object describes. An exception
        is retried; a defect is also reported on the object, as an Event."""

    @property
    def objects(self) -> Mapping[str, Object]:
        """Return `namespace/name` -> the newest known state of each object of the kind."""
        return self._cache.objects

    def start(self) -> None:
        """Subscribe to changes of the reconciled kind and of the kinds that it owns."""
        self._cache.subscribe(self._changed)
        for kind in self.owns:
            self._calls.cache(kind).subscribe(self._owned_changed)

    async def run(self) -> None:
        """Wait until all kinds that the controller reads have been listed once, and then work until cancelled."""
        for kind in (self.kind, *self.owns, *self.reads):
            await self._calls.cache(kind).synced.wait()
        await self.queue.run()

    def tell(self, obj: Object, type: str, reason: str, text: str) -> None:
        """Report an Event on the object."""
        self._recorder.tell(self.component, obj, type, reason, text)

    def look_after(self, obj: Object, delay_s: float) -> None:
        """Reconcile the object again after `delay_s` seconds, even if nothing changes."""
        self.queue.add_after(key_of(obj), delay_s)

    async def write_status(self, obj: Object, status: Mapping[str, Any]) -> bool:
        """Write the status for this version of the object, if it has changed. After a write by someone else,
        reconcile again. Return whether the API server has the status now. Raises ApiError."""
        if status == (obj.get("status") or {}):
            return True
        try:
            await self._calls.replace(self.kind, {**obj, "status": dict(status)}, "status")
        except ApiRefusal as refusal:
            if refusal.code != 409 and not gone(refusal):
                raise
            self.look_after(obj, _AGAIN_S)
            return False
        return True

    def _changed(self, change: Change) -> None:
        if change.new is not None:
            self.queue.add(key_of(change.new))

    def _owned_changed(self, change: Change) -> None:
        """Reconcile the owner of the changed object. The owner's group is checked, because several groups have a kind
        `Job`."""
        for obj in (change.old, change.new):
            owner = controller_of(obj) if obj is not None else None
            if obj is None or owner is None or owner["kind"] != self.kind.name:
                continue
            if owner["apiVersion"].rpartition("/")[0] == self.kind.group:
                space = obj["metadata"].get("namespace")
                key = f"{space}/{owner['name']}" if space else owner["name"]
                self.queue.add_after(key, self.gather_s)

    async def _look(self, key: str) -> None:
        obj = self.objects.get(key)
        if obj is not None and not is_deleting(obj):
            await self.reconcile(obj)
