"""Writes: sent side by side, in order per object, and never twice by mistake.

Every answer is one of three (phalanx.client.connection): done, refused, or unknown. An unknown write is never simply
sent again and never counted as failed: the object is read, and it tells whether the write happened. A conflict is read
in the same way: perhaps it was our own write whose answer was lost. So each kind of write says, besides what it sends,
how to judge an object that was read.

No write is sent past the fence (the renew deadline of the leader's lease): what is not sent by then is dropped and the
process ends, for somebody else may lead by now.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Coroutine
from enum import Enum
from itertools import count
from typing import Any, NamedTuple

from phalanx.client.connection import ApiError, ApiRefusal, ApiUnknown, Connection, Object
from phalanx.errors import PhalanxError
from phalanx.kube.gang.effects import Answer

_CONCURRENCY = 32
_BACKOFF_S = (0.02, 0.1, 0.5, 1.0, 2.0, 5.0)
_CONFLICTS = 8  # a write that finds its object changed so often in a row is refused


class LeaseLost(PhalanxError):
    """The leader's lease could not be renewed in time: another process may lead now."""


class Verdict(Enum):
    """What an object that was read says about a write to it."""

    ACHIEVED = "achieved"
    AGAIN = "again"  # not there, and still wanted: the write now carries the object's version
    GONE = "gone"
    LOST = "lost"  # not there, and no longer to be done


class Write(ABC):
    """`key` names the object: writes with the same key are sent one after the other. `begins`: it makes more work for
    others (a Job that is resumed gets pods); such writes wait for those that finish what is begun, or free room."""

    key: str
    begins = False

    @abstractmethod
    async def send(self, api: Connection) -> Object: ...

    @abstractmethod
    async def read(self, api: Connection) -> Object: ...

    @abstractmethod
    def judge(self, obj: Object) -> Verdict: ...


AnswerCallback = Callable[[Answer, Object | None, str], None]


class _Turn(NamedTuple):
    """`number` tells all turns apart, so that what follows is never compared."""

    begins: bool
    number: int
    write: Write
    done: AnswerCallback


class Writer:
    """`put` never waits; `run` sends until cancelled. `fence`: the event loop's time after which nothing is sent.

    `width` writes are on their way at once, each on a connection of its own: what the server does not take yet waits
    here. So that a burst of starts does not hold up the gangs that are whole already, what only begins goes last."""

    def __init__(self, api: Connection, fence: Callable[[], float] | None = None, width: int = _CONCURRENCY) -> None:
        self._api, self._fence, self._width = api, fence, width
        self._ready: asyncio.PriorityQueue[_Turn] = asyncio.PriorityQueue()
        self._turns = count()
        self._behind: dict[str, deque[tuple[Write, AnswerCallback]]] = {}  # key -> what waits for the write under way

    def put(self, write: Write, done: AnswerCallback) -> None:
        if write.key in self._behind:
            self._behind[write.key].append((write, done))
        else:
            self._behind[write.key] = deque()
            self._line_up(write, done)

    def _line_up(self, write: Write, done: AnswerCallback) -> None:
        self._ready.put_nowait(_Turn(write.begins, next(self._turns), write, done))

    @property
    def idle(self) -> bool:
        return not self._behind

    @property
    def unanswered(self) -> int:
        """Objects with a write that was not answered yet."""
        return len(self._behind)

    @property
    def unsent(self) -> int:
        """Of those, objects whose write waits for one of the `width` places."""
        return self._ready.qsize()

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            for _ in range(self._width):
                group.create_task(self._work())

    async def _work(self) -> None:
        while True:
            _, _, write, done = await self._ready.get()
            answer, obj, text = await self._perform(write)
            behind = self._behind[write.key]
            if behind:
                self._line_up(*behind.popleft())
            else:
                del self._behind[write.key]
            done(answer, obj, text)

    async def _perform(self, write: Write) -> tuple[Answer, Object | None, str]:
        conflicts, text = 0, ""
        while conflicts < _CONFLICTS:
            try:
                return Answer.DONE, await self._fenced(write.send(self._api)), ""
            except ApiRefusal as error:
                if error.code not in {404, 409}:
                    return Answer.REFUSED, None, str(error)
                text = str(error)
                conflicts += 1
            except ApiUnknown as error:
                text = str(error)
                await asyncio.sleep(_BACKOFF_S[0])
            verdict, obj = await self._look(write)
            match verdict:
                case Verdict.ACHIEVED:
                    return Answer.DONE, obj, ""
                case Verdict.GONE:
                    return Answer.GONE, None, text
                case Verdict.LOST:
                    return Answer.REFUSED, obj, text
            await asyncio.sleep(_BACKOFF_S[min(conflicts, len(_BACKOFF_S) - 1)])
        return Answer.REFUSED, None, text

    async def _look(self, write: Write) -> tuple[Verdict, Object | None]:
        """Read until there is an answer: until then nobody knows, and what the write would hold stays held."""
        failures = 0
        while True:
            try:
                obj = await self._fenced(write.read(self._api))
                return write.judge(obj), obj
            except ApiRefusal as error:
                if error.code == 404:
                    return Verdict.GONE, None
                failures += 1
            except ApiError:
                failures += 1
            await asyncio.sleep(_BACKOFF_S[min(failures, len(_BACKOFF_S) - 1)])

    async def _fenced(self, call: Coroutine[Any, Any, Object]) -> Object:
        if self._fence is None:
            return await call
        clock, until = asyncio.get_running_loop().time, self._fence()
        if clock() < until:
            try:
                async with asyncio.timeout_at(until):
                    return await call
            except TimeoutError:
                if clock() < self._fence():  # we lead still, and the server is slow
                    raise ApiUnknown("there was no answer while the lease was sure to be ours") from None
        call.close()
        raise LeaseLost(
            "the leader's lease could not be renewed in time, so nothing more is written; whoever leads now "
            "goes on from what stands on the objects. Start this process again to stand by"
        )
