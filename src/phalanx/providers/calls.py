"""The two calls of providers that are programs or web servers, as JSON documents.

`scale` has the number of nodes that the group should have, the names of the nodes to add, and the names of the nodes to
remove. `status` returns the nodes of the group with their states. A provider that chooses the names of its nodes itself
goes by the number; then its nodes that start take the places of the requested names in turn. Docs/guide/autoscaling.md
has both documents with examples."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Protocol, TypeVar

import msgspec

from phalanx.client.moment import MomentError, read_moment
from phalanx.providers.provider import ProviderError, Requested, Status

Answer = TypeVar("Answer", bound=msgspec.Struct)

VERSION = "phalanx.dev/v1"
STARTING, RUNNING, FAILED, REMOVING = "starting", "running", "failed", "removing"
STATES = (STARTING, RUNNING, FAILED, REMOVING)
MOST_BYTES = 4 << 20  # of an answer
MOST_NODES = 20_000
_TEXT = 300  # characters of a provider's own words in an error


class NodeState(msgspec.Struct, kw_only=True, frozen=True):
    """A node in an answer to `status`. `name`: the requested name, or the provider's own. `node`: the name of its Node
    object, if it is another one. `since`: the time of the request, in RFC 3339. `message`: why it failed."""

    name: str
    state: str
    node: str = ""
    since: str = ""
    message: str = ""

    @property
    def counts(self) -> bool:
        """Return whether the node exists or will exist."""
        return self.state in (STARTING, RUNNING)

    def since_s(self) -> float:
        return read_moment(self.since) if self.since else time.time()


class StatusAnswer(msgspec.Struct, kw_only=True, frozen=True):
    nodes: list[NodeState] = []


class ScaleAnswer(msgspec.Struct, kw_only=True, frozen=True):
    """`refused`: node -> why it is not added, or not removed."""

    refused: dict[str, str] = {}


class Caller(Protocol):
    """Sends a document to a provider. `name`: what is called, for errors."""

    name: str

    async def call(self, call: str, group: str, body: bytes) -> bytes:
        """Return the answer to a call. Raises ProviderError."""


class CalledProvider:
    """The provider of one group that is called with JSON documents. `provider_id`: returns the `spec.providerID` of a
    Node; empty if it has none."""

    def __init__(self, caller: Caller, provider_id: Callable[[str], str]) -> None:
        self._caller, self._provider_id = caller, provider_id
        self._requested: dict[str, float] = {}  # requested nodes that have not arrived -> the time of their request
        self._last: tuple[tuple[Sequence[str], Sequence[str]], int] | None = None  # a call without answer, its count

    async def scale(self, group: str, add: Sequence[str], remove: Sequence[str]) -> Mapping[str, str]:
        """Call `scale`. A repeated call has the same count."""
        key, known = (tuple(add), tuple(remove)), await self.nodes(group)
        if self._last is None or self._last[0] != key:
            self._last = key, self._count(known, add, remove)
        names = {each.node: each.name for each in known if each.node}
        listed = [names.get(name, name) for name in remove]
        ids = {sent: found for sent, name in zip(listed, remove, strict=True) if (found := self._provider_id(name))}
        body = {"count": self._last[1], "add": list(add), "remove": listed, "providerIDs": ids}
        answer = self._read(await self._call("scale", group, body), ScaleAnswer)
        self._last = None
        back = dict(zip(listed, remove, strict=True))
        refused = {back.get(name, name): text_of(why) or "it gives no reason" for name, why in answer.refused.items()}
        self._requested |= dict.fromkeys((name for name in add if name not in refused), time.time())
        for name in remove:
            self._requested.pop(name, None)
        return {name: why for name, why in refused.items() if name in key[0] or name in key[1]}

    async def status(self, group: str) -> Status:
        known = await self.nodes(group)
        names = self._names(known)
        coming = {names[each.name]: each for each in known if each.state == STARTING}
        failed = {each.name: text_of(each.message) or "it failed" for each in known if each.state == FAILED}
        self._requested = {name: at_s for name, at_s in self._requested.items() if name in coming}
        requested = (Requested(name, self._requested.get(name, each.since_s())) for name, each in coming.items())
        return Status(requested=tuple(requested), failed=failed)

    async def nodes(self, group: str) -> list[NodeState]:
        """Return the nodes of the group, as the provider lists them. Raises ProviderError."""
        found = self._read(await self._call("status", group, {}), StatusAnswer).nodes
        if len(found) > MOST_NODES:
            raise ProviderError(f"{self._caller.name} lists {len(found)} nodes; at most {MOST_NODES} are read")
        for each in found:
            if each.state not in STATES:
                text = (
                    f"the state {text_of(each.state)!r} of node {text_of(each.name)!r} is none of {', '.join(STATES)}"
                )
                raise ProviderError(f"the answer of {self._caller.name} to status cannot be used: {text}")
            try:
                each.since_s()
            except MomentError as error:
                text = f"`since` of node {text_of(each.name)!r}: {error}"
                raise ProviderError(f"the answer of {self._caller.name} to status cannot be used: {text}") from None
        return found

    def _count(self, known: Sequence[NodeState], add: Sequence[str], remove: Sequence[str]) -> int:
        """Return the number of nodes that the group should have after the call."""
        counted = {each.name: each for each in known if each.counts}
        names = set(counted) | {each.node for each in counted.values()}
        named = {name for name in remove if name in names}
        # A requested name that the provider does not list stands for one of its nodes that start.
        others = sum(each.state == STARTING and each.name not in self._requested for each in counted.values())
        cancelled = min(others, sum(name in self._requested and name not in names for name in remove))
        return max(0, len(counted) + sum(name not in names for name in add) - len(named) - cancelled)

    def _names(self, known: Iterable[NodeState]) -> dict[str, str]:
        """Return the requested name of each node that starts: its own, or the next one that the provider does not
        list."""
        listed = {each.name for each in known}
        free = iter([name for name in self._requested if name not in listed])
        starting = (each.name for each in known if each.state == STARTING)
        return {name: name if name in self._requested else next(free, name) for name in starting}

    async def _call(self, call: str, group: str, more: Mapping[str, Any]) -> bytes:
        body = {"apiVersion": VERSION, "call": call, "group": group, **more}
        return await self._caller.call(call, group, msgspec.json.encode(body))

    def _read(self, answer: bytes, kind: type[Answer]) -> Answer:
        try:
            return msgspec.json.decode(answer.strip() or b"{}", type=kind)
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            shown = text_of(answer.decode(errors="replace"))
            raise ProviderError(f"the answer of {self._caller.name} cannot be read: {error}; it is {shown!r}") from None


def text_of(text: str) -> str:
    """Return a provider's text in one printable line of bounded length."""
    line = " ".join(text.split())
    line = "".join(each for each in line if each.isprintable())
    return line if len(line) <= _TEXT else f"{line[: _TEXT - 1]}…"


def described(known: Iterable[NodeState]) -> Iterator[str]:
    """Yield the number of nodes in each state, for instance `3 running`."""
    states = [each.state for each in known]
    yield from (f"{states.count(state)} {state}" for state in STATES if state in states)
