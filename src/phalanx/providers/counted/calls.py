"""The two calls `scale` and `status`, for backends that are called with the number of nodes that a group should have.
The module also defines the JSON documents of these calls for programs and web servers.

The arguments of `scale` are the number of nodes that the group should have, the names of the nodes to add, and the
names of the nodes to remove. `status` returns the nodes of the group with their states. A provider that chooses the
names of its nodes itself uses only the number. The nodes that start after the call are matched to the requested names,
in the order of the names. The page docs/guide/autoscaling.md shows both documents with examples."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple, Protocol, TypeVar

import msgspec

from phalanx.client.moment import MomentError, read_moment
from phalanx.providers.provider import ProviderError, Requested, Status

Answer = TypeVar("Answer", bound=msgspec.Struct)

VERSION = "phalanx.dev/v1"
STARTING, RUNNING, FAILED, REMOVING = "starting", "running", "failed", "removing"
STATES = (STARTING, RUNNING, FAILED, REMOVING)
MOST_BYTES = 4 << 20  # the maximum length of an answer, in bytes
MOST_NODES = 20_000
_TEXT = 300  # the maximum number of characters of a provider's text in an error


class NodeState(msgspec.Struct, kw_only=True, frozen=True):
    """A node in an answer to `status`. `name`: the requested name, or a name that the provider chose. `node`: the name
    of its Node object, if this differs from `name`. `since`: the time of the request, in RFC 3339. `message`: why the
    node failed."""

    name: str
    state: str
    node: str = ""
    since: str = ""
    message: str = ""

    def failed_after(self, at_s: float) -> bool:
        """Return whether this failed node may belong to a request that was made at `at_s` (seconds since the epoch)."""
        return bool(self.since) and self.since_s() + 1.0 >= at_s  # 1 s more: `since` may lack the fraction of a second

    def since_s(self) -> float:
        return read_moment(self.since) if self.since else time.time()


class StatusAnswer(msgspec.Struct, kw_only=True, frozen=True):
    nodes: list[NodeState] = []


class ScaleAnswer(msgspec.Struct, kw_only=True, frozen=True):
    """The answer to `scale`. `refused`: node -> why it is not added, or not removed."""

    refused: dict[str, str] = {}


class Scale(NamedTuple):
    """The arguments of `scale`. `total`: the number of nodes that the group should have. `remove`: the nodes to remove,
    by the names in the provider's list. `provider_ids`: name of a node to remove -> the `spec.providerID` of its Node
    object."""

    total: int
    add: Sequence[str]
    remove: Sequence[str]
    provider_ids: Mapping[str, str]


class Backend(Protocol):
    """A provider that lists its nodes, and whose call `scale` contains the number of nodes that it should have.
    `counted`: the states in which the provider counts a node towards this number."""

    counted: frozenset[str]

    async def nodes(self, group: str) -> Sequence[NodeState]:
        """Return the nodes of the group, as the provider lists them. Raises ProviderError."""

    async def scale(self, group: str, to: Scale) -> Mapping[str, str]:
        """Return the nodes that are not added, or not removed, with reasons. Raises ProviderError."""


class Unanswered(NamedTuple):
    """A call of `scale` whose answer was lost. `total`: the number of nodes in the call. `unmatched`: how many nodes
    without a known request were starting before the call."""

    add: Sequence[str]
    remove: Sequence[str]
    total: int
    unmatched: int


class CountedProvider:
    """The provider of one group whose backend is called with a number of nodes. `provider_id`: a function that returns
    the `spec.providerID` of a Node; empty if the Node has none."""

    def __init__(self, backend: Backend, provider_id: Callable[[str], str]) -> None:
        self._backend, self._provider_id = backend, provider_id
        self._requested: dict[str, float] = {}  # requested nodes that have not arrived -> the time of their request
        self._last: Unanswered | None = None
        self._listed_requests: set[str] = set()  # requested nodes in the provider's last list
        self._running: frozenset[str] | None = None  # running nodes in the provider's last list
        self._arrived = 0  # the number of nodes that have begun to run since the last `status`

    async def scale(self, group: str, add: Sequence[str], remove: Sequence[str]) -> Mapping[str, str]:
        """Call `scale`. A repeated call requests the same number of nodes. If the answer to a call was lost, the nodes
        that the call requested can still be removed: they are the nodes that started after the call."""
        key, known = (tuple(add), tuple(remove)), await self._nodes(group)
        listed = self._listed(known, remove)
        if self._last is None or self._last[:2] != key:
            total = self._count(known, add, listed.values())
            self._last = Unanswered(*key, total, len(self._unmatched(known)))
        ids = {sent: found for name, sent in listed.items() if (found := self._provider_id(name))}
        answer = await self._backend.scale(group, Scale(self._last.total, add, tuple(listed.values()), ids))
        self._last = None
        back = {sent: name for name, sent in listed.items()}
        refused = {back.get(name, name): text_of(why) or "it gives no reason" for name, why in answer.items()}
        self._requested |= dict.fromkeys((name for name in add if name not in refused), time.time())
        for name in remove:
            self._requested.pop(name, None)
        return {name: why for name, why in refused.items() if name in key[0] or name in key[1]}

    async def status(self, group: str) -> Status:
        known = await self._nodes(group)
        names = self._names(known)
        coming = {names[each.name]: each for each in known if each.state == STARTING}
        failed = {
            names.get(each.name, each.name): text_of(each.message) or "it failed"
            for each in known
            if each.state == FAILED
        }
        gone = [name for name in self._requested if name not in coming and name not in failed]
        lost = (name for name in gone[self._arrived :] if name in self._listed_requests)  # the first have arrived
        failed |= dict.fromkeys(lost, "the provider no longer lists it")
        self._requested = {name: at_s for name, at_s in self._requested.items() if name in coming or name in failed}
        self._listed_requests, self._arrived = set(coming), 0
        requested = (Requested(name, self._requested.get(name, each.since_s())) for name, each in coming.items())
        return Status(requested=tuple(requested), failed=failed)

    async def _nodes(self, group: str) -> Sequence[NodeState]:
        """Return the provider's list of nodes, and count the nodes that have begun to run since the previous list."""
        known = await self._backend.nodes(group)
        running = frozenset(each.name for each in known if each.state == RUNNING)
        self._arrived += 0 if self._running is None else len(running - self._running)
        self._running = running
        return known

    def _count(self, known: Iterable[NodeState], add: Iterable[str], remove: Iterable[str]) -> int:
        """Return the number of nodes that the group should have after the call."""
        names = {each.name for each in known if each.state in self._backend.counted}
        return len(names) + sum(name not in names for name in add) - len(names & set(remove))

    def _listed(self, known: Sequence[NodeState], names: Iterable[str]) -> dict[str, str]:
        """Return, for each of these nodes, its name in the provider's list. The name is found by the Node object or by
        the request."""
        found = {requested: name for name, requested in self._names(known).items()}
        found |= {each.node: each.name for each in known if each.node}
        if self._last is not None:
            missing = [name for name in self._last.add if name not in found]
            started = [name for name in self._unmatched(known) if name not in self._last.add][self._last.unmatched :]
            found |= zip(missing, reversed(started), strict=False)  # newest first: these nodes have no machine yet
        return {name: found.get(name, name) for name in names}

    def _unmatched(self, known: Sequence[NodeState]) -> list[str]:
        """Return the starting nodes that belong to no known request."""
        names = self._names(known)
        own = (each.name for each in known if each.state == STARTING and names[each.name] == each.name)
        return [name for name in own if name not in self._requested]

    def _names(self, known: Sequence[NodeState]) -> dict[str, str]:
        """Return a mapping from each name in the provider's list to the requested name. Both names of a node are the
        same, unless the provider has chosen the name and the node has not arrived. Such a node is matched to a
        requested name that the provider does not list. The arrived nodes are matched to the names that were requested
        first. So the names that were requested last remain for nodes that have not arrived."""
        listed = {each.name for each in known}
        free = [name for name in self._requested if name not in listed]
        first_s = min((self._requested[name] for name in free), default=math.inf)
        coming = [
            each.name
            for each in known
            if each.name not in self._requested
            and (each.state == STARTING or (each.state == FAILED and each.failed_after(first_s)))
        ]
        return {name: name for name in listed} | dict(zip(coming, free[-len(coming) :], strict=False))


class Caller(Protocol):
    """Sends a document to a provider. `name`: the name of the program or server, for error messages."""

    name: str

    async def call(self, call: str, group: str, body: bytes) -> bytes:
        """Make the call to the provider, and return its answer. Raises ProviderError."""


class Documents:
    """A backend that is called with JSON documents."""

    counted = frozenset((STARTING, RUNNING))

    def __init__(self, caller: Caller) -> None:
        self._caller = caller

    async def scale(self, group: str, to: Scale) -> Mapping[str, str]:
        ids = dict(to.provider_ids)
        body = {"count": to.total, "add": list(to.add), "remove": list(to.remove), "providerIDs": ids}
        return self._read(await self._call("scale", group, body), ScaleAnswer).refused

    async def nodes(self, group: str) -> Sequence[NodeState]:
        found = self._read(await self._call("status", group, {}), StatusAnswer).nodes
        cannot = f"the answer of {self._caller.name} to status cannot be used"
        if len(found) > MOST_NODES:
            raise ProviderError(f"{cannot}: it lists {len(found)} nodes, and at most {MOST_NODES} are read")
        for each in found:
            about = f"node {text_of(each.name)!r}"
            if each.state not in STATES:
                raise ProviderError(
                    f"{cannot}: state {text_of(each.state)!r} of {about} is not one of {', '.join(STATES)}"
                )
            try:
                each.since_s()
            except MomentError as error:
                raise ProviderError(f"{cannot}: `since` of {about}: {error}") from None
        return found

    async def _call(self, call: str, group: str, more: Mapping[str, object]) -> bytes:
        body = {"apiVersion": VERSION, "call": call, "group": group, **more}
        return await self._caller.call(call, group, msgspec.json.encode(body))

    def _read(self, answer: bytes, kind: type[Answer]) -> Answer:
        try:
            return msgspec.json.decode(answer.strip() or b"{}", type=kind)
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            shown = text_of(answer.decode(errors="replace"))
            raise ProviderError(f"the answer of {self._caller.name} cannot be read: {error}; it is {shown!r}") from None


def text_of(text: str) -> str:
    """Return a provider's text as one line of printable characters, cut to `_TEXT` characters."""
    line = " ".join(text.split())
    line = "".join(each for each in line if each.isprintable())
    return line if len(line) <= _TEXT else f"{line[: _TEXT - 1]}…"


def described(known: Iterable[NodeState]) -> Iterator[str]:
    """Yield the number of nodes in each state, for instance `3 running`."""
    states = [each.state for each in known]
    yield from (f"{states.count(state)} {state}" for state in STATES if state in states)
