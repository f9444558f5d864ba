"""One leader at a time: a Lease of coordination.k8s.io, and the fence that makes it safe.

A lease alone does not fence: a process that slept through its renewals may wake up with a write in its hands. So the
holder carries a deadline on its own monotonic clock, shorter than the lease: counted from *before* the last renewal
that succeeded was sent. No write is sent after this deadline (`phalanx.kube.write.writer`), and a process that cannot
renew before it ends. Another process takes over only after it has itself watched the lease unchanged for its whole
duration, on its own clock too: no two clocks are ever compared. The remainder (10 s - 6 s) is what a write on its way
may take.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from phalanx.client.connection import ApiError, ApiRefusal, Connection, Object
from phalanx.client.kind import LEASES
from phalanx.client.moment import write_micro_moment
from phalanx.kube.leader.stall_watch import stalls_logged
from phalanx.kube.read.labels import POLICY
from phalanx.kube.write.writer import LeaseLost

log = logging.getLogger(__name__)

NAME, NAMESPACE = "phalanx", "kube-system"


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseDurations:
    """Durations in seconds. `lease_s`: the duration of the Lease. `renew_s`: the time after the sending of a renewal
    until which writes are allowed. `retry_s`: the pause before the next renewal."""

    lease_s: float = 10.0
    renew_s: float = 6.0
    retry_s: float = 2.0


class Lease:
    """The Lease of the leader, in a process that holds it or waits for it. `identity`: unique to the process (host name
    and process id, for example). `policy`: the text of the leader's policy, written to an annotation, so that commands
    such as `explain` can make the same decisions."""

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
        self._until = 0.0  # the fence, in time of the event loop
        self._seen: tuple[str, float] = ("", 0.0)  # (version of the Lease, the time since which it is unchanged)
        self._free_s = 0.0  # the time at which an unchanged Lease is free

    def fence(self) -> float:
        """Return the event loop's time after which nothing may be written."""
        return self._until

    async def acquire(self) -> None:
        """Wait until this process leads."""
        while not await self._attempt():
            left_s = self._free_s - _now()
            await asyncio.sleep(min(self.terms.retry_s, left_s + 0.01) if left_s > 0 else self.terms.retry_s)

    async def keep(self) -> None:
        """Renew the Lease until cancelled. Raises LeaseLost when the deadline passes without a renewal. A failed
        renewal is retried soon, because a flaky connection often works for long enough in between."""
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
                    "this process stops scheduling, another may lead now; start it again to stand by"
                )

    async def release(self) -> None:
        """Release the Lease, so that another process can take over at once. After the fence it is not released, because
        another process may hold it already."""
        until, self._until = self._until, 0.0
        if _now() >= until:
            return
        try:
            async with asyncio.timeout_at(until):
                lease = await self._api.get(LEASES, self._name, self._namespace)
                if lease["spec"].get("holderIdentity") == self.identity:
                    await self._api.replace(LEASES, {**lease, "spec": {**lease["spec"], "holderIdentity": ""}})
        except (ApiError, TimeoutError) as error:
            log.info("the lease was not given back: %s", error)

    # --- inside ---------------------------------------------------------------------------------------------------

    async def _attempt(self) -> bool:
        """Acquire or renew the Lease. Return False if another process holds it, or if the server does not answer."""
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
        """Return whether this process may take the Lease: it holds it already, the Lease was released, or this process
        has seen it unchanged for its whole duration."""
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
    """Lead for the length of the context; LeaseLost ends the context when the Lease cannot be renewed. Code that blocks
    the event loop for too long is logged."""
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
    """Return the first LeaseLost in the group: from the renewal, or from a write after the fence."""
    found: BaseException = group
    while isinstance(found, BaseExceptionGroup):
        found = found.exceptions[0]
    assert isinstance(found, LeaseLost)
    return found


def _now() -> float:
    return asyncio.get_running_loop().time()
