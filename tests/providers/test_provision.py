"""Calls to providers that fail, refuse, are late or forget, and what the scheduler is told of them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from functools import wraps
from typing import Any

import pytest

from phalanx.model.event import Event, NodeGroupSeen, NodesComing, NodesFailed
from phalanx.model.node import Node, NodeGroup
from phalanx.model.plan import ReleaseNodes, RequestNodes
from phalanx.providers import provision
from phalanx.providers.provider import ProviderError, Requested, Status
from phalanx.providers.provision import Provisioning

GROUP = NodeGroup(name="g", template=Node(name="g", allocatable=()), delay_s=60.0, timeout_s=300.0)


@dataclass
class Scripted:
    """A provider whose answers are scripted. `errors`: how many calls fail before one succeeds."""

    errors: int = 0
    refused: Mapping[str, str] = field(default_factory=dict)
    known: Status = field(default_factory=Status)
    calls: list[tuple[Sequence[str], Sequence[str]]] = field(default_factory=list)
    looks: int = 0

    async def scale(self, group: str, add: Sequence[str], remove: Sequence[str]) -> Mapping[str, str]:
        self.calls.append((tuple(add), tuple(remove)))
        if self.errors:
            self.errors -= 1
            raise ProviderError("the cloud is away")
        return {name: why for name, why in self.refused.items() if name in add}

    async def status(self, group: str) -> Status:
        self.looks += 1
        return self.known


@pytest.fixture(autouse=True)
def _without_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(provision, "FIRST_PAUSE_S", 0.0)
    monkeypatch.setattr(provision, "LOOK_S", 0.001)


@asynccontextmanager
async def provided(by: Scripted) -> AsyncIterator[Provisioning]:
    found = Provisioning([(GROUP, by)], lambda: 1000.0)
    task = asyncio.create_task(found.run())
    try:
        yield found
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


def at_once(test: Callable[[], Coroutine[Any, Any, None]]) -> Callable[[], None]:
    """The test, run in an event loop of its own."""

    @wraps(test)
    def run() -> None:
        asyncio.run(test())

    return run


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not condition():  # noqa: ASYNC110 (what is waited for tells nobody)
            await asyncio.sleep(0)


async def heard(nodes: Provisioning, enough: Callable[[list[Event]], bool]) -> list[Event]:
    """The events, once there are enough of them."""
    found: list[Event] = []

    def has_enough() -> bool:
        found.extend(nodes.events())
        return enough(found)

    await until(has_enough)
    return found


def requested(*names: str) -> RequestNodes:
    return RequestNodes("ns/job", "g", names, 1000.0, 1060.0, 1300.0)


@at_once
async def test_the_groups_are_told_first_and_then_what_was_requested_before() -> None:
    async with provided(Scripted(known=Status(requested=(Requested("g-1", 900.0),)))) as nodes:
        assert await heard(nodes, lambda events: len(events) == 2) == [
            NodeGroupSeen(GROUP),
            NodesComing("g", ("g-1",), 900.0, 960.0, 1200.0),
        ]


@at_once
async def test_a_request_is_repeated_after_an_error() -> None:
    provider = Scripted(errors=2)
    async with provided(provider) as nodes:
        nodes.apply(requested("g-1", "g-2"))
        nodes.apply(ReleaseNodes("", "g", ("g-9",)))
        await until(lambda: len(provider.calls) == 4)
        assert provider.calls == [(("g-1", "g-2"), ())] * 3 + [((), ("g-9",))]
        assert not [event for event in nodes.events() if isinstance(event, NodesFailed)]


@at_once
async def test_a_provider_that_does_not_answer_has_failed() -> None:
    provider = Scripted(errors=provision.TRIES)
    async with provided(provider) as nodes:
        nodes.apply(requested("g-1", "g-2"))
        events = await heard(nodes, lambda events: isinstance(events[-1] if events else None, NodesFailed))
        assert events[-1] == NodesFailed("g", ("g-1", "g-2"), "the cloud is away")
        await until(lambda: len(provider.calls) > provision.TRIES)
        assert provider.calls == [(("g-1", "g-2"), ())] * provision.TRIES + [((), ("g-1", "g-2"))], "it may have them"


@at_once
async def test_refused_nodes_are_told_with_the_reason_and_the_others_are_expected() -> None:
    provider = Scripted(refused={"g-2": "no quota"}, known=Status(requested=(Requested("g-1", 1000.0),)))
    async with provided(provider) as nodes:
        nodes.apply(requested("g-1", "g-2"))
        events = await heard(nodes, lambda events: isinstance(events[-1] if events else None, NodesFailed))
        assert events[-1] == NodesFailed("g", ("g-2",), "no quota")
        provider.known = Status(failed={"g-1": "the machine broke", "g-7": "of another request"})
        events = await heard(nodes, bool)
        assert events == [NodesFailed("g", ("g-1",), "the machine broke")]


@at_once
async def test_nothing_is_asked_while_nothing_is_expected() -> None:
    provider = Scripted()
    async with provided(provider) as nodes:
        nodes.apply(requested("g-1"))
        await until(lambda: provider.looks >= 2)
        looks = provider.looks
        nodes.apply(ReleaseNodes("", "g", ("g-1",)))
        await until(lambda: len(provider.calls) == 2)
        for _ in range(100):
            await asyncio.sleep(0)
        assert provider.looks == looks


@at_once
async def test_a_removal_is_repeated_until_it_succeeds() -> None:
    provider = Scripted(errors=provision.TRIES + 2)
    async with provided(provider) as nodes:
        nodes.apply(ReleaseNodes("", "g", ("g-1",)))
        await until(lambda: len(provider.calls) == provision.TRIES + 3)
        assert provider.errors == 0


@at_once
async def test_a_removal_that_fails_holds_up_no_request_and_no_other_removal() -> None:
    class Stuck(Scripted):
        async def scale(self, group: str, add: Sequence[str], remove: Sequence[str]) -> Mapping[str, str]:
            await super().scale(group, add, remove)
            if "g-1" in remove:
                raise ProviderError("g-1 is locked")
            return {}

    provider = Stuck()
    async with provided(provider) as nodes:
        nodes.apply(ReleaseNodes("", "g", ("g-1", "g-2")))
        nodes.apply(requested("g-3"))
        for call in (((), ("g-1", "g-2")), (("g-3",), ()), ((), ("g-2",)), ((), ("g-1",))):
            await until(lambda call=call: call in provider.calls)  # type: ignore[misc]  # bound at once
        again = len(provider.calls)
        await until(lambda: len(provider.calls) > again)
        assert provider.calls.count(((), ("g-2",))) == 1
        assert set(provider.calls[again:]) == {((), ("g-1",))}


@at_once
async def test_requests_fail_while_the_provider_cannot_be_asked_what_was_requested_before() -> None:
    class Away(Scripted):
        async def status(self, group: str) -> Status:
            self.looks += 1
            if self.errors:
                raise ProviderError("the cloud is away")
            return self.known

    provider = Away(errors=1)
    async with provided(provider) as nodes:
        nodes.apply(requested("g-1"))
        nodes.apply(ReleaseNodes("", "g", ("g-9",)))
        events = await heard(nodes, lambda events: isinstance(events[-1] if events else None, NodesFailed))
        assert events[-1] == NodesFailed("g", ("g-1",), "the cloud is away")
        provider.errors = 0
        await until(lambda: bool(provider.calls))
        assert provider.calls == [((), ("g-9",))], "the removal is made when the provider answers"
