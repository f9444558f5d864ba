"""Point 13 of the protocol: a lease does not fence, so nothing is written past the renew deadline."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from phalanx.client.connection import ApiRefusal, ApiUnknown
from phalanx.kube.lease import Lease, Terms
from phalanx.kube.write import LeaseLost, Verdict, Write, Writer

TERMS = Terms(lease_s=0.2, renew_s=0.08, retry_s=0.01)


class Leases:
    """A server of one Lease, which can fall silent."""

    def __init__(self) -> None:
        self.lease: dict[str, Any] | None = None
        self.version, self.silent = 0, False

    async def get(self, *_: Any) -> dict[str, Any]:
        if self.silent:
            raise ApiUnknown("no answer")
        if self.lease is None:
            raise ApiRefusal(404, "NotFound", "no lease")
        return self.lease

    async def create(self, kind: Any, body: dict[str, Any], *_: str) -> dict[str, Any]:
        return self.store(body)

    async def replace(self, kind: Any, body: dict[str, Any]) -> dict[str, Any]:
        if body["metadata"]["resourceVersion"] != str(self.version):
            raise ApiRefusal(409, "Conflict", "it has been modified")
        return self.store(body)

    def store(self, body: dict[str, Any]) -> dict[str, Any]:
        self.version += 1
        self.lease = {**body, "metadata": {**body["metadata"], "resourceVersion": str(self.version)}}
        return self.lease


def lease(server: Leases, name: str) -> Lease:
    return Lease(server, name, terms=TERMS)  # type: ignore[arg-type]  # it answers as a connection does


def test_a_second_process_waits_until_the_first_gives_the_lease_back() -> None:
    async def scene() -> None:
        server = Leases()
        first, second = lease(server, "a"), lease(server, "b")
        await first.acquire()
        waiting = asyncio.ensure_future(second.acquire())
        await asyncio.sleep(TERMS.retry_s * 2)
        assert not waiting.done()
        await first.release()
        await asyncio.wait_for(waiting, 1)

    asyncio.run(scene())


def test_it_takes_over_only_after_watching_a_whole_duration_without_renewal() -> None:
    async def scene() -> None:
        server = Leases()
        await lease(server, "a").acquire()
        now = asyncio.get_running_loop().time()
        await asyncio.wait_for(lease(server, "b").acquire(), 2)
        assert asyncio.get_running_loop().time() - now > TERMS.lease_s

    asyncio.run(scene())


def test_a_leader_that_cannot_renew_ends_before_its_lease_does() -> None:
    async def scene() -> None:
        server = Leases()
        leader = lease(server, "a")
        await leader.acquire()
        server.silent = True
        began = asyncio.get_running_loop().time()
        with pytest.raises(LeaseLost, match="could not be renewed"):
            await leader.keep()
        assert asyncio.get_running_loop().time() - began < TERMS.lease_s

    asyncio.run(scene())


class Nothing(Write):
    key = "jobs/x"
    sent = 0

    async def send(self, api: Any) -> dict[str, Any]:
        self.sent += 1
        return {}

    async def read(self, api: Any) -> dict[str, Any]:
        return {}

    def judge(self, obj: dict[str, Any]) -> Verdict:
        return Verdict.ACHIEVED


def test_no_write_is_sent_past_the_fence() -> None:
    async def scene() -> None:
        write = Nothing()
        writer = Writer(None, lambda: asyncio.get_running_loop().time() - 1.0)  # type: ignore[arg-type]  # never called
        writer.put(write, lambda *answer: None)
        with pytest.raises(ExceptionGroup) as caught:
            await writer.run()
        assert caught.group_contains(LeaseLost)
        assert write.sent == 0

    asyncio.run(scene())
