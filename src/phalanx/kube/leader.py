"""Ensure that only one scheduler process is the leader (by a Lease of coordination.k8s.io), and that a former leader
writes nothing.

A Lease alone does not prevent late writes: a process may be suspended (by its machine, for example), and resume after
its Lease has expired, just before it sends a write. So the leader has a deadline on its own monotonic clock, the
*fence*. The fence is earlier than the end of the Lease, and it is counted from the moment right *before* the last
successful renewal was sent. The leader sends no write after the fence (`phalanx.kube.write.writer`). A leader that
cannot renew the Lease before the fence exits. Another process becomes the leader only after it has seen the Lease
unchanged for the whole duration of the Lease, measured on its own clock. So the clocks of two machines are never
compared. The Lease ends 10 s after its renewal, and the fence is 6 s after it. So a write that was sent before the
fence has 4 s to arrive.

The module also logs which code runs when the event loop is blocked for too long.

If the event loop is blocked, the process may fail to renew the Lease and lose the leadership. The API server may also
disconnect a watch that the process does not read. Afterwards an administrator can find out which code blocked the loop
only if the stack was logged during the stall. So a separate thread checks the loop. For each stall, the thread logs the
stack once, and the length of the stall after its end.

The module also provides a clock for the scheduler that shows the time of day, but never jumps (`SteadyClock`).

Time limits, timeouts and usage are measured by the time of day, because objects and records contain times of day, and
users set the time of day at which a job may begin. But a machine's clock may be adjusted by an hour or by years. If the
scheduler used this clock, all timeouts would end at once after an adjustment forward, and the scheduler would undo all
unfinished starts. After an adjustment backward, no timeout would end for a long time.

So the scheduler's time is derived from the monotonic clock and approaches the machine's clock: the scheduler's time
runs twice as fast while it is behind the machine's clock, and half as fast while it is ahead of it. If the machine's
clock is set forward by an hour, the scheduler's time catches up within an hour.
"""

from __future__ import annotations

import asyncio
import logging
import sys
import threading
import time
import traceback
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass

from phalanx.client.connection import ApiError, ApiRefusal, Connection, Object
from phalanx.client.kind import LEASES
from phalanx.client.moment import write_micro_moment
from phalanx.kube.read.labels import POLICY
from phalanx.kube.write.writer import LeaseLost

log = logging.getLogger(__name__)

_FRAMES = 6  # the number of stack frames that are logged


@contextmanager
def stalls_logged(limit_s: float = 1.0) -> Iterator[None]:
    """While the context is open, log a warning whenever the running event loop is blocked for `limit_s` seconds."""
    watch = _StallWatch(asyncio.get_running_loop(), limit_s)
    watch.begin()
    try:
        yield
    finally:
        watch.end()


class _StallWatch:
    def __init__(self, loop: asyncio.AbstractEventLoop, limit_s: float) -> None:
        self._loop, self._limit_s, self._thread_id = loop, limit_s, threading.get_ident()
        self._turned_s = time.monotonic()  # when the event loop last ran `_turn`
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._look, name="stall watch", daemon=True)

    def begin(self) -> None:
        self._turn()
        self._thread.start()

    def end(self) -> None:
        self._over.set()
        self._handle.cancel()

    def _turn(self) -> None:
        self._turned_s = time.monotonic()
        self._handle = self._loop.call_later(self._limit_s / 4, self._turn)

    def _look(self) -> None:
        told_s = 0.0  # when the loop last ran before the stall that was logged; 0: no stall
        while not self._over.wait(self._limit_s / 2):
            turned_s = self._turned_s
            if told_s and turned_s != told_s:
                log.warning("the event loop runs again, after %.1f s", turned_s - told_s)
                told_s = 0.0
            if not told_s and time.monotonic() - turned_s > self._limit_s:
                told_s = turned_s
                log.warning(
                    "the event loop has been blocked for %.1f s; the stack is\n%s", self._limit_s, self._stack()
                )

    def _stack(self) -> str:
        frame = sys._current_frames().get(self._thread_id)
        return "".join(traceback.format_stack(frame)[-_FRAMES:]) if frame is not None else "a thread that has ended"


NAME, NAMESPACE = "phalanx", "kube-system"


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseDurations:
    """Durations in seconds. `lease_s`: the duration of the Lease. `renew_s`: how long writes are allowed after a
    successful renewal was sent. `retry_s`: the pause before the next renewal."""

    lease_s: float = 10.0
    renew_s: float = 6.0
    retry_s: float = 2.0


class Lease:
    """The leader's Lease, for a process that holds the Lease or waits for it. `identity`: a name that is unique to the
    process (for example its host name and process id). `policy`: the leader's policy as text. It is written to an
    annotation of the Lease, so that commands such as `explain` can compute the same decisions."""

    def __init__(
        self,
        api: Connection,
        identity: str,
        *,
        name: str = NAME,
        namespace: str = NAMESPACE,
        terms: LeaseDurations,
        policy: str = "",
    ) -> None:
        self.identity, self.terms, self._policy = identity, terms, policy
        self._api, self._name, self._namespace = api, name, namespace
        self._until = 0.0  # the fence, as a time of the event loop
        self._seen: tuple[str, float] = ("", 0.0)  # (version of the Lease, the time since which it is unchanged)
        self._free_s = 0.0  # when this process may take the Lease, if the Lease stays unchanged until then

    def fence(self) -> float:
        """Return the time of the event loop after which this process may write nothing."""
        return self._until

    async def acquire(self) -> None:
        """Wait until this process leads."""
        while not await self._attempt():
            left_s = self._free_s - _now()
            await asyncio.sleep(min(self.terms.retry_s, left_s + 0.01) if left_s > 0 else self.terms.retry_s)

    async def keep(self) -> None:
        """Renew the Lease again and again, until this task is cancelled. Raises LeaseLost when the Lease could not be
        renewed before the fence. A failed renewal is retried soon, because an unreliable connection often works again a
        moment later."""
        renewed, soon_s = True, self.terms.retry_s / 4
        while True:
            await asyncio.sleep(self.terms.retry_s if renewed else soon_s)
            try:
                async with asyncio.timeout_at(self._until):
                    renewed = await self._attempt()
            except TimeoutError:
                renewed = False
            if not renewed and _now() + soon_s >= self._until:
                raise LeaseLost(
                    f"the lease {self._namespace}/{self._name} could not be renewed for {self.terms.renew_s:g} s: "
                    "this process stops scheduling, because another process may lead now; restart it to wait on standby"
                )

    async def release(self) -> None:
        """Release the Lease, so that another process can become the leader at once. After the fence, do not release the
        Lease, because another process may already hold it."""
        until, self._until = self._until, 0.0
        if _now() >= until:
            return
        try:
            async with asyncio.timeout_at(until):
                lease = await self._api.get(LEASES, self._name, self._namespace)
                if lease["spec"].get("holderIdentity") == self.identity:
                    await self._api.replace(LEASES, {**lease, "spec": {**lease["spec"], "holderIdentity": ""}})
        except (ApiError, TimeoutError) as error:
            log.info("the lease was not released: %s", error)

    # --- internal -------------------------------------------------------------------------------------------------

    async def _attempt(self) -> bool:
        """Acquire or renew the Lease. Return False if another process holds the Lease, or if the API server does not
        answer."""
        sent = _now()
        try:
            lease = await self._find()
            if not self._free(lease):
                return False
            words = {**(lease["metadata"].get("annotations") or {}), POLICY: self._policy}
            meta = {**lease["metadata"], "annotations": {key: text for key, text in words.items() if text}}
            await self._api.replace(LEASES, {**lease, "metadata": meta, "spec": self._spec(lease["spec"])})
        except ApiError as error:
            log.info("the lease was not renewed: %s", error)
            return False
        self._until = sent + self.terms.renew_s
        return True

    async def _find(self) -> Object:
        try:
            return await self._api.get(LEASES, self._name, self._namespace)
        except ApiRefusal as error:
            if error.code != 404:
                raise
        meta = {"name": self._name, "namespace": self._namespace}
        body = {"apiVersion": LEASES.api_version, "kind": LEASES.name, "metadata": meta, "spec": {}}
        return await self._api.create(LEASES, body, self._namespace)

    def _free(self, lease: Object) -> bool:
        """Return whether this process may take the Lease. It may if it already holds the Lease, if the Lease was
        released, or if it has seen the Lease unchanged for the whole duration of the Lease."""
        holder = lease["spec"].get("holderIdentity") or ""
        if holder in {"", self.identity}:
            return True
        version = lease["metadata"]["resourceVersion"]
        if version != self._seen[0]:
            self._seen = (version, _now())
        duration_s = float(lease["spec"].get("leaseDurationSeconds") or self.terms.lease_s)
        self._free_s = self._seen[1] + duration_s
        return _now() > self._free_s

    def _spec(self, old: Object) -> Object:
        now = write_micro_moment(time.time())
        changed = old.get("holderIdentity") != self.identity
        return {
            "holderIdentity": self.identity,
            "leaseDurationSeconds": max(1, round(self.terms.lease_s)),
            "acquireTime": now if changed else old.get("acquireTime", now),
            "renewTime": now,
            "leaseTransitions": int(old.get("leaseTransitions") or 0) + changed,
        }


@asynccontextmanager
async def leading(lease: Lease) -> AsyncIterator[Lease]:
    """Acquire the Lease, and renew it while the context is open. If the Lease cannot be renewed, the code in the
    context is cancelled, and LeaseLost is raised. If code in the context blocks the event loop for too long, the stack
    is logged."""
    await lease.acquire()
    try:
        async with asyncio.TaskGroup() as group:
            keeping = group.create_task(lease.keep())
            try:
                with stalls_logged():
                    yield lease
            finally:
                keeping.cancel()
                await lease.release()
    except* LeaseLost as lost:
        raise _first(lost) from None


def _first(group: BaseExceptionGroup[LeaseLost]) -> LeaseLost:
    """Return the first LeaseLost in the group. It was raised by the renewal, or by a write after the fence."""
    found: BaseException = group
    while isinstance(found, BaseExceptionGroup):
        found = found.exceptions[0]
    assert isinstance(found, LeaseLost)
    return found


def _now() -> float:
    return asyncio.get_running_loop().time()


_AHEAD, _BEHIND = 0.5, 2.0  # the speed of this clock while it is ahead of the machine's clock, or behind it
_AGREES_S = 1.0  # smaller adjustments, such as those of time servers, take effect at once


class SteadyClock:
    """A clock that never jumps. A call of the object returns seconds since the epoch. `wall`: the machine's clock.
    `monotonic`: a clock that is never adjusted."""

    def __init__(self, wall: Callable[[], float] = time.time, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._wall, self._monotonic = wall, monotonic
        self._now_s, self._read_s = wall(), monotonic()

    def __call__(self) -> float:
        read_s, wall_s = self._monotonic(), self._wall()
        passed_s, self._read_s = read_s - self._read_s, read_s
        straight_s = self._now_s + passed_s
        if abs(wall_s - straight_s) < _AGREES_S:
            self._now_s = max(self._now_s, wall_s)
        elif wall_s > straight_s:
            self._now_s = min(wall_s, self._now_s + _BEHIND * passed_s)
        else:
            self._now_s = max(wall_s, self._now_s + _AHEAD * passed_s)
        return self._now_s
