"""Point 13 of the protocol: a lease does not fence, so nothing is written past the renew deadline."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from phalanx.client.connection import ApiRefusal, ApiUnknown
from phalanx.kube.leader import Lease, LeaseDurations, leading
from phalanx.kube.write.writer import LeaseLost, Verdict, Write, Writer
from tests import clockwork

TERMS = LeaseDurations(lease_s=0.2, renew_s=0.08, retry_s=0.01)


class Leases:
    """A server of one Lease, which can fall silent."""

    def __init__(self) -> None:
        self.lease: dict[str, Any] | None = None
        self.version, self.silent = 0, False
        self.hangs = False
        self.breaks: Callable[[float], bool] = lambda now_s: False  # the connection is cut then

    async def get(self, *_: Any) -> dict[str, Any]:
        if self.hangs:
            await asyncio.Event().wait()
        if self.silent or self.breaks(asyncio.get_running_loop().time()):
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

    clockwork.run(scene())


def test_whoever_gets_no_answer_ends_with_the_lease_and_waits_for_none() -> None:
    """Over a connection that hung a process ended nine seconds late: it gave the lease back (kube-apiserver 1.36)."""

    async def scene() -> None:
        server, clock = Leases(), asyncio.get_running_loop().time
        began_s = clock()

        async def lead() -> None:
            async with leading(lease(server, "a")):
                server.hangs = True
                await asyncio.Event().wait()

        with pytest.raises(LeaseLost):
            await lead()
        assert clock() - began_s < TERMS.renew_s * 1.5

    clockwork.run(scene())


def test_a_connection_that_is_cut_again_and_again_loses_no_lease() -> None:
    """It is cut whenever a renewal is due, and whole half a second later."""

    async def scene() -> None:
        server, clock = Leases(), asyncio.get_running_loop().time
        one = Lease(server, "a", terms=LeaseDurations())  # type: ignore[arg-type]  # it answers as a connection does
        await one.acquire()
        began_s = clock()
        server.breaks = lambda now_s: not 0.4 < (now_s - began_s) % 2.0 < 0.9
        keeping = asyncio.ensure_future(one.keep())
        await asyncio.sleep(60.0)
        assert not keeping.done()
        keeping.cancel()

    clockwork.run(scene())


def test_it_takes_over_only_after_watching_a_whole_duration_without_renewal() -> None:
    async def scene() -> None:
        server = Leases()
        await lease(server, "a").acquire()
        now, patient = asyncio.get_running_loop().time(), replace(TERMS, retry_s=0.3)
        standby = Lease(server, "b", terms=patient)  # type: ignore[arg-type]  # it answers as a connection does
        await asyncio.wait_for(standby.acquire(), 2)
        waited_s = asyncio.get_running_loop().time() - now
        assert waited_s > 1.0, "a lease is written in whole seconds"
        assert waited_s < 1.15, "it looks again when the lease is over, and not a retry later"

    clockwork.run(scene())


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

    clockwork.run(scene())


def test_no_clocks_are_compared() -> None:
    """Clock skew: what the holder wrote as its times, an hour ahead or behind, decides nothing; what counts is that the
    lease did not change for its whole duration under our own eyes."""

    async def scene(renewed: str) -> None:
        server = Leases()
        await lease(server, "a").acquire()
        assert server.lease is not None
        server.lease["spec"] |= {"renewTime": renewed, "acquireTime": renewed}
        began = asyncio.get_running_loop().time()
        await asyncio.wait_for(lease(server, "b").acquire(), 2)
        assert asyncio.get_running_loop().time() - began > TERMS.lease_s

    for renewed in ("2000-01-01T00:00:00.000000Z", "2099-01-01T00:00:00.000000Z"):
        clockwork.run(scene(renewed))


def test_a_standby_takes_over_within_fifteen_seconds() -> None:
    """Of the terms: the last renewal was seen at most one retry late, and the end of the lease at once."""
    terms = LeaseDurations()
    assert terms.lease_s + terms.retry_s <= 12, "which leaves 3 s to list and to decide"
    assert terms.renew_s + 2 < terms.lease_s, "what was sent last has time to arrive before another leads"


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

    clockwork.run(scene())


class Slow(Nothing):
    """The server takes longer to answer than the lease was sure to be ours when this was sent."""

    async def send(self, api: Any) -> dict[str, Any]:
        self.sent += 1
        await asyncio.sleep(0.05)
        return {}


def test_a_slow_answer_costs_nobody_the_lead_who_still_has_it() -> None:
    async def scene() -> None:
        write, answered = Slow(), asyncio.Event()
        loop = asyncio.get_running_loop()
        writer = Writer(None, lambda: loop.time() + 0.02)  # type: ignore[arg-type]  # never called
        writer.put(write, lambda *answer: answered.set())
        working = asyncio.ensure_future(writer.run())
        await asyncio.wait_for(answered.wait(), 2)
        working.cancel()
        assert write.sent == 1, "it was looked for, and found"

    clockwork.run(scene())
