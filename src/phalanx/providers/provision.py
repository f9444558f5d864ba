"""Make the calls to the providers of node groups, and report the answers of the providers as events.

The calls for one group are made one after the other, so that the removal of a node never overtakes the request for this
node. A call that fails is repeated after a pause. After `TRIES` attempts the requested nodes count as failed, and the
scheduler tries the next group for the job. The provider is then also asked to remove these nodes, because it may have
carried out a call whose answer was lost. A removal is repeated until it succeeds, because a node that is not removed
costs money. Between the attempts, other calls are made. While requested nodes have not arrived, the provider is asked
for their status every `LOOK_S` seconds."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType

from phalanx.model.event import Event, NodeGroupSeen, NodesComing, NodesFailed, NodesKept
from phalanx.model.node import NodeGroup
from phalanx.model.plan import ReleaseNodes, RequestNodes
from phalanx.providers.provider import Provider, ProviderError, Status

log = logging.getLogger(__name__)

TRIES = 3
FIRST_PAUSE_S, LONGEST_PAUSE_S = 1.0, 60.0
LOOK_S = 10.0
CALL_S = 60.0  # the timeout of one call


class Provisioning:
    """The node groups of one cluster. `groups`: each group with its provider. `now_s`: a function that returns the
    seconds since the epoch. `group_labels`: label (key, value) of nodes -> their group, in addition to the label
    `phalanx.dev/node-group`. `wake`: a function that is called when there are events."""

    def __init__(
        self,
        groups: Iterable[tuple[NodeGroup, Provider]],
        now_s: Callable[[], float],
        group_labels: Mapping[tuple[str, str], str] = MappingProxyType({}),
    ) -> None:
        self.group_labels = group_labels
        self._lines = {group.name: GroupCalls(group, provider, now_s, self._tell) for group, provider in groups}
        self.wake: Callable[[], None] = lambda: None
        self._news: list[Event] = [NodeGroupSeen(line.group) for line in self._lines.values()]

    def events(self) -> Sequence[Event]:
        """Return the events since the last call. The result of the first call begins with the events that describe the
        node groups."""
        news, self._news = self._news, []
        return news

    def apply(self, action: RequestNodes | ReleaseNodes) -> None:
        """Add a request or release of nodes to the calls of its group; the call is made in the background."""
        if (line := self._lines.get(action.group)) is not None:
            line.add(action)

    async def run(self) -> None:
        """Make the calls to the providers, until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            for line in self._lines.values():
                tasks.create_task(line.run())

    def _tell(self, event: Event) -> None:
        self._news.append(event)
        self.wake()


class GroupCalls:
    """Makes the calls to the provider of one node group, one after the other. `tell`: a function that reports an
    event."""

    def __init__(
        self, group: NodeGroup, provider: Provider, now_s: Callable[[], float], tell: Callable[[Event], None]
    ) -> None:
        self.group, self._provider, self._now_s, self._tell = group, provider, now_s, tell
        self._actions: asyncio.Queue[RequestNodes | ReleaseNodes] = asyncio.Queue()
        self._until_s: dict[str, float] = {}  # requested node -> the time from which its request counts as failed
        self._removals: list[tuple[str, ...]] = []  # the removal calls to repeat, each with its nodes
        self._again_s, self._pause_s = 0.0, FIRST_PAUSE_S  # when removals are repeated (loop's clock); the next pause

    def add(self, action: RequestNodes | ReleaseNodes) -> None:
        """Add an action to the calls to be made."""
        self._actions.put_nowait(action)

    async def run(self) -> None:
        """Report the nodes that an earlier process requested. Then make the calls to the provider, until cancelled."""
        await self._resume()
        while True:
            try:
                async with asyncio.timeout(self._pause()):
                    action = await self._actions.get()
            except TimeoutError:
                if self._removals and asyncio.get_running_loop().time() >= self._again_s:
                    await self._remove()
                elif self._until_s:
                    await self._look()
                continue
            match action:
                case RequestNodes():
                    await self._request(action)
                case ReleaseNodes():
                    await self._release(action.nodes)

    def _pause(self) -> float | None:
        """Return how many seconds this task may wait for the next action before it has other work; None if there is no
        other work."""
        until_look_s = LOOK_S if self._until_s else None
        if not self._removals:
            return until_look_s
        until_removal_s = max(0.0, self._again_s - asyncio.get_running_loop().time())
        return until_removal_s if until_look_s is None else min(until_removal_s, until_look_s)

    async def _resume(self) -> None:
        """Wait until the provider answers. Then report the nodes that an earlier scheduler process has requested, and
        continue the removals that the earlier process has begun."""
        status = await self._asked_again()
        if status.removing:
            self.add(ReleaseNodes("", self.group.name, status.removing))
        for name, since_s in status.requested:
            times = since_s, since_s + self.group.delay_s, since_s + self.group.timeout_s
            self._until_s[name] = times[-1]
            self._tell(NodesComing(self.group.name, (name,), *times))

    async def _asked_again(self) -> Status:
        pause_s = FIRST_PAUSE_S
        while True:
            try:
                async with asyncio.timeout(CALL_S):
                    return await self._provider.status(self.group.name)
            except (ProviderError, TimeoutError) as error:
                why = str(error) or f"no answer within {CALL_S:g} s"
                log.warning("node group %s: its provider does not answer: %s", self.group.name, why)
                self._refuse_waiting(why)
                await asyncio.sleep(pause_s)
                pause_s = min(2 * pause_s, LONGEST_PAUSE_S)

    def _refuse_waiting(self, why: str) -> None:
        """Refuse all requests that wait for a call, because the provider does not answer."""
        for _ in range(self._actions.qsize()):
            match self._actions.get_nowait():
                case RequestNodes(nodes=nodes):
                    self._refused((name, why) for name in nodes)
                case removal:
                    self.add(removal)

    async def _request(self, action: RequestNodes) -> None:
        """Request the nodes. Report the nodes that the provider refuses; if the provider does not answer, report all of
        them as refused."""
        log.info(
            "node group %s: requesting %s for %s", action.group, ", ".join(action.nodes), action.job or "its minimum"
        )
        again = frozenset(action.nodes)  # a new node may have the name of an earlier node that is being removed
        self._removals = [left for names in self._removals if (left := tuple(one for one in names if one not in again))]
        why = ""
        for tried in range(TRIES):
            if tried:
                await asyncio.sleep(FIRST_PAUSE_S * 2.0**tried)
            try:
                async with asyncio.timeout(CALL_S):
                    refused = await self._provider.scale(action.group, action.nodes, ())
            except (ProviderError, TimeoutError) as error:
                why = str(error) or f"no answer within {CALL_S:g} s"
                log.warning("node group %s: request %d of %d failed: %s", action.group, tried + 1, TRIES, why)
                continue
            self._until_s |= dict.fromkeys((name for name in action.nodes if name not in refused), action.until_s)
            self._refused(refused.items())
            return
        self._refused((name, why) for name in action.nodes)
        await self._release(action.nodes)

    async def _release(self, names: tuple[str, ...]) -> None:
        """Remove the nodes. A call that fails is repeated until it succeeds."""
        for name in names:
            self._until_s.pop(name, None)
        self._removals.append(names)
        await self._remove()

    async def _remove(self) -> None:
        """Make each pending call that removes nodes once. If a call with several nodes fails, the next attempt makes a
        separate call for each node, so that one node does not block the removal of the other nodes."""
        group, removals, self._removals = self.group.name, self._removals, []
        for names in removals:
            log.info("node group %s: removing %s", group, ", ".join(names))
            try:
                async with asyncio.timeout(CALL_S):
                    refused = await self._provider.scale(group, (), names)
            except (ProviderError, TimeoutError) as error:
                log.warning("node group %s: %s are not removed yet: %s", group, ", ".join(names), error)
                self._removals += ((name,) for name in names)
                continue
            for name, why in refused.items():
                log.warning("node group %s: node %s is kept: %s", group, name, why)
            if refused:
                self._tell(NodesKept(group, tuple(refused)))
        self._again_s = asyncio.get_running_loop().time() + self._pause_s
        self._pause_s = min(2 * self._pause_s, LONGEST_PAUSE_S) if self._removals else FIRST_PAUSE_S

    async def _look(self) -> None:
        """Ask the provider whether requested nodes have failed, and cancel the failed ones. Forget nodes that the
        provider no longer lists."""
        try:
            async with asyncio.timeout(CALL_S):
                status = await self._provider.status(self.group.name)
        except (ProviderError, TimeoutError) as error:
            log.warning("node group %s: its provider does not answer: %s", self.group.name, error)
            return
        failed = {name: why for name, why in status.failed.items() if name in self._until_s}
        self._refused(failed.items())
        if failed:
            await self._release(tuple(failed))
        coming = {each.name for each in status.requested}
        self._until_s = {name: at_s for name, at_s in self._until_s.items() if name in coming}

    def _refused(self, refused: Iterable[tuple[str, str]]) -> None:
        """Report requested nodes that will not arrive, with one event for all nodes with the same reason."""
        reasons: dict[str, list[str]] = {}
        for name, why in refused:
            self._until_s.pop(name, None)
            reasons.setdefault(why, []).append(name)
        for why, names in reasons.items():
            self._tell(NodesFailed(self.group.name, tuple(names), why))
