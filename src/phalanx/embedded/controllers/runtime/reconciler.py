"""The base class of the controllers of one kind. It reconciles an object when the object, or an object that it
controls, changes.

A controller defines how to reconcile one object (`reconcile`); `run` determines when to call it. Terminating objects
are not reconciled; the garbage collector handles them. If a kind is not served yet, because its definition is missing,
`run` waits for it. This does not delay other controllers.

`WorkQueue` is a queue of the keys of objects that workers reconcile. A key is in the queue at most once, two workers
never reconcile the same key at a time, and after a failure the key is added again with a growing delay.

The queue behaves like client-go's rate-limiting workqueue. If a key is added while a worker reconciles it, the key is
reconciled again afterwards. If a key is added with several delays, it becomes ready at the earliest of the requested
times."""

from __future__ import annotations

import asyncio
import logging
import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field

from phalanx.client.connection import ApiError, ApiRefusal, Object
from phalanx.client.informer import Change, key_of
from phalanx.client.kind import PODS, Kind
from phalanx.embedded.controllers.runtime.calls import Calls, Clock, gone
from phalanx.embedded.controllers.runtime.pod_state import OwnerPodIndex, controller_of, is_deleting
from phalanx.embedded.controllers.runtime.recorder import EventRecorder, marking

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Retry:
    """The delay after a failure. It begins with `first_s`, doubles with each failure, and is at most `most_s`."""

    first_s: float = 1.0
    most_s: float = 60.0

    def after_s(self, failures: int) -> float:
        return min(self.first_s * 2.0 ** min(failures - 1, 30), self.most_s)


class WorkQueue:
    """A queue of keys. `work(key)` is called for every added key. If it raises an exception, it is called again after a
    growing delay. `on_defect(key, exception)`, if it is given, is called for exceptions other than ApiError."""

    def __init__(
        self,
        name: str,
        work: Callable[[str], Awaitable[None]],
        *,
        workers: int = 8,
        retry: Retry | None = None,
    ) -> None:
        self._name, self._work = name, work
        self._workers, self._retry = workers, retry or Retry()
        self._ready: deque[str] = deque()
        self._dirty: set[str] = set()
        self._running: set[str] = set()
        self._timers: dict[str, asyncio.TimerHandle] = {}
        self._failures: dict[str, int] = {}
        self._wake = asyncio.Semaphore(0)
        self.on_defect: Callable[[str, Exception], None] | None = None

    def __len__(self) -> int:
        """Return the number of keys that are ready or being reconciled. Delayed keys are not counted."""
        return len(self._ready) + len(self._running)

    def is_running(self, key: str) -> bool:
        """Return True if a worker reconciles the key at this moment."""
        return key in self._running

    def add(self, key: str) -> None:
        if timer := self._timers.pop(key, None):
            timer.cancel()
        if key in self._dirty:
            return
        self._dirty.add(key)
        if key not in self._running:
            self._push(key)

    def add_after(self, key: str, delay_s: float) -> None:
        if delay_s <= 0:
            self.add(key)
            return
        if key in self._dirty:
            return  # the key is already queued for an earlier time
        loop = asyncio.get_running_loop()
        if (timer := self._timers.get(key)) is not None:
            if timer.when() <= loop.time() + delay_s:
                return
            timer.cancel()
        self._timers[key] = loop.call_later(delay_s, self.add, key)

    async def run(self) -> None:
        """Work until cancelled."""
        try:
            async with asyncio.TaskGroup() as group:
                for _ in range(self._workers):
                    group.create_task(self._worker())
        finally:
            for timer in self._timers.values():
                timer.cancel()

    async def _worker(self) -> None:
        while True:
            await self._wake.acquire()
            key = self._ready.popleft()
            self._dirty.discard(key)
            self._running.add(key)
            try:
                await self._work(key)
                self._failures.pop(key, None)
            except Exception as error:  # a defect: log it, retry this key later, and continue with other keys
                self._fail(key, error)
            finally:
                self._running.discard(key)
                if key in self._dirty:
                    self._push(key)

    def _fail(self, key: str, error: Exception) -> None:
        """Log the error of one object, because such an error must not stop the controller. An error that is not a
        response of the API is a defect."""
        failures = self._failures[key] = self._failures.get(key, 0) + 1
        delay_s = self._retry.after_s(failures)
        if isinstance(error, ApiError):
            log.info("%s %s: %s; again in %.1f s", self._name, key, error, delay_s)
        else:
            # The traceback is logged only for the first failure, because many objects may cause the same error.
            first = error if failures == 1 else None
            log.error("%s %s: %r; again in %.1f s", self._name, key, error, delay_s, exc_info=first)
            if self.on_defect is not None:
                self.on_defect(key, error)
        self.add_after(key, delay_s)

    def _push(self, key: str) -> None:
        self._ready.append(key)
        self._wake.release()


_AGAIN_S = 0.1  # the pause before a retry if another client changed the object in the meantime


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
    """Call `start`, then `run`. `component`: the name of the controller in the Events that it writes. `owns`: the kinds
    of controlled objects; their changes are collected for `gather_s`, because a reconciliation reads all of an object's
    controlled objects.
    `reads`: other kinds that the decisions depend on; no object is reconciled before their objects are listed."""

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
        """Perform the next step towards the state that the object describes. After an exception, the call is repeated;
        a defect is also reported as an Event on the object."""

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

    async def write_status(self, obj: Object, status: Mapping[str, object]) -> bool:
        """Write the status, if it has changed, with the object's resourceVersion as a precondition. If another client
        has changed the object in the meantime, reconcile it again. Return True if the object has this status now.
        Raises ApiError."""
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
        """Reconcile the owner of the changed object. The API group of the owner is checked, because several groups have
        a kind `Job`."""
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
