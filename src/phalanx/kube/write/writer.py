"""Send writes: concurrently, but in order for each object. A write is never repeated by mistake.

The outcome of a write is success, refusal, or unknown (phalanx.client.connection). A write with an unknown outcome is
not repeated at once, and does not count as failed. Instead, the object is read to find out whether the write happened.
A conflict is handled in the same way, because the conflicting write may be an earlier attempt of the same write whose
answer was lost. So each kind of write has a method (`judge`) that finds out from the object whether the write happened.

At most `width` writes are sent at the same time. A write that fails again and again (because a webhook is down, or
because the object changes all the time) waits longer after each attempt. During this pause it does not count as one of
the `width` writes, so that other writes are not delayed. If the object still shows after the last attempt that the
write did not happen, the write counts as refused, with the server's text. The module that requested the write then
decides how to continue. As long as the object cannot be read, the outcome is unknown, and the read is repeated.

No write is sent after the fence (the renew deadline of the leader's Lease). Unsent writes are then discarded and the
process ends, because another process may be the leader by then.
"""

from __future__ import annotations

import asyncio
import logging
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from enum import Enum
from itertools import count
from typing import Any, NamedTuple

from phalanx.client.connection import ApiError, ApiRefusal, ApiUnknown, Connection, Object
from phalanx.errors import PhalanxError
from phalanx.kube.gang.effects import WriteOutcome

log = logging.getLogger(__name__)

_CONCURRENCY = 32
_BACKOFF_S = (0.02, 0.1, 0.5, 1.0, 2.0, 5.0)
_PROMPT = 2  # attempts that are made without a pause after a conflict
_ATTEMPTS = 8  # the number of attempts after which a write counts as refused


class LeaseLost(PhalanxError):
    """The leader's Lease could not be renewed in time, so that another process may be the leader now."""


class Verdict(Enum):
    """The result of reading an object to find out whether a write to it happened."""

    ACHIEVED = "achieved"
    AGAIN = "again"  # the write has not happened and must be sent again; its patch now names the newer version
    GONE = "gone"
    LOST = "lost"  # the write has not happened, and must not be sent again because the object has changed


class Write(ABC):
    """A write to one object. `key`: the name of the object; writes with the same key are sent one after the other.
    `begins`: True if the write begins a start and so causes further writes (a resumed Job gets pods, which must be
    bound). A write that begins a start is sent only after the waiting writes that complete a start or release capacity.
    `retried`: the codes of refusals that may be temporary, such as 429 from a webhook."""

    key: str
    begins = False
    retried: frozenset[int] = frozenset({429})

    @abstractmethod
    async def send(self, api: Connection) -> Object: ...

    @abstractmethod
    async def read(self, api: Connection) -> Object: ...

    @abstractmethod
    def judge(self, obj: Object) -> Verdict: ...


AnswerCallback = Callable[[WriteOutcome, Object | None, str], None]


@dataclass(slots=True, eq=False, kw_only=True)
class _Turn:
    """A write that is not finished. `sent`: the number of attempts so far. `unknown`: True if the last attempt may have
    succeeded. `unread`: how often the object could not be read since that attempt. `conflict`: True if the last attempt
    failed because the object has a newer version. This version was then read. `text`: the server's last message."""

    write: Write
    done: AnswerCallback
    sent: int = 0
    unknown: bool = False
    unread: int = 0
    conflict: bool = False
    text: str = ""


class _Ended(NamedTuple):
    answer: WriteOutcome
    obj: Object | None = None


class Writer:
    """The queue of all writes. `put` returns at once, and `run` sends writes until it is cancelled. `fence`: a function
    that returns the event loop's time after which no write is sent.

    At most `width` writes are sent at the same time, each on its own connection; the others wait in this queue. Writes
    that begin a start are sent last. Otherwise a large number of starts would delay gangs whose pods already exist.
    """

    def __init__(self, api: Connection, fence: Callable[[], float] | None = None, width: int = _CONCURRENCY) -> None:
        self._api, self._fence, self._width = api, fence, width
        self._ready: asyncio.PriorityQueue[tuple[bool, int, _Turn]] = asyncio.PriorityQueue()
        self._numbers = count()
        self._behind: dict[str, deque[_Turn]] = {}  # key -> the writes that wait until the present write ends
        self._resting = 0

    def put(self, write: Write, done: AnswerCallback) -> None:
        turn = _Turn(write=write, done=done)
        if write.key in self._behind:
            self._behind[write.key].append(turn)
        else:
            self._behind[write.key] = deque()
            self._line_up(turn)

    def _line_up(self, turn: _Turn) -> None:
        self._ready.put_nowait((turn.write.begins, next(self._numbers), turn))

    @property
    def idle(self) -> bool:
        return not self._behind

    @property
    def unanswered(self) -> int:
        """Return the number of objects with an unanswered write."""
        return len(self._behind)

    @property
    def unsent(self) -> int:
        """Return the number of writes that wait only because `width` other writes are being sent."""
        return self._ready.qsize()

    @property
    def resting(self) -> int:
        """Return the number of failed writes that wait for their next attempt."""
        return self._resting

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            for _ in range(self._width):
                group.create_task(self._work())

    async def _work(self) -> None:
        while True:
            _, _, turn = await self._ready.get()
            ended = await self._fence_off(turn)
            if ended is None:
                self._rest(turn)
                continue
            behind = self._behind[turn.write.key]
            if behind:
                self._line_up(behind.popleft())
            else:
                del self._behind[turn.write.key]
            turn.done(ended.answer, ended.obj, "" if ended.answer is WriteOutcome.DONE else turn.text)

    def _rest(self, turn: _Turn) -> None:
        """Send the write again later. After a first or second conflict, send it again at once, because such conflicts
        are common: the Job controller writes the status of a new Job at about the time of its resume."""
        if turn.conflict and not turn.unknown and turn.sent <= _PROMPT:
            self._line_up(turn)
            return

        def again() -> None:
            self._resting -= 1
            self._line_up(turn)

        self._resting += 1
        asyncio.get_running_loop().call_later(_rest_s(turn), again)

    async def _fence_off(self, turn: _Turn) -> _Ended | None:
        """Attempt the write. If an unexpected exception is raised (for example because an object is malformed), only
        this write fails."""
        try:
            return await self._attempt(turn)
        except LeaseLost:
            raise
        except Exception as error:  # whatever the error is, other writes must continue
            log.exception("the write %s is given up", turn.write.key)
            turn.text = f"{type(error).__name__}: {error}"
            return _Ended(WriteOutcome.REFUSED)

    async def _attempt(self, turn: _Turn) -> _Ended | None:
        """Send the write, and read the object if the outcome is unknown. Return the outcome of the write; None if the
        write must be attempted again after a pause."""
        if not turn.unknown:
            try:
                turn.sent += 1
                return _Ended(WriteOutcome.DONE, await self._fenced(turn.write.send(self._api)))
            except ApiRefusal as error:
                turn.text, turn.conflict = str(error), error.code == 409
                if error.code not in {404, 409} | turn.write.retried:
                    return _Ended(WriteOutcome.REFUSED)
            except ApiUnknown as error:
                turn.text, turn.unknown, turn.unread = str(error), True, 0
                return None
        return await self._look(turn)

    async def _look(self, turn: _Turn) -> _Ended | None:
        """Read the object and return the outcome of the write. Until the object can be read, the outcome is unknown,
        and the resources that the write assigns stay reserved."""
        try:
            obj = await self._fenced(turn.write.read(self._api))
        except ApiError as error:
            if isinstance(error, ApiRefusal) and error.code == 404:
                return _Ended(WriteOutcome.GONE)
            turn.unknown = True
            turn.unread += 1
            return None
        turn.unknown = False
        match turn.write.judge(obj):
            case Verdict.ACHIEVED:
                return _Ended(WriteOutcome.DONE, obj)
            case Verdict.GONE:
                return _Ended(WriteOutcome.GONE)
            case Verdict.LOST:
                return _Ended(WriteOutcome.CHANGED, obj)
            case Verdict.AGAIN if turn.sent >= _ATTEMPTS:
                return _Ended(WriteOutcome.REFUSED, obj)
        return None

    async def _fenced(self, call: Coroutine[Any, Any, Object]) -> Object:
        if self._fence is None:
            return await call
        clock, until = asyncio.get_running_loop().time, self._fence()
        if clock() < until:
            try:
                async with asyncio.timeout_at(until):
                    return await call
            except TimeoutError:
                if clock() < self._fence():  # this process is still the leader, and the server is slow
                    raise ApiUnknown(
                        "there was no answer before the end of the time in which this process certainly holds the lease"
                    ) from None
        call.close()
        raise LeaseLost(
            "the leader's lease could not be renewed in time, so this process writes nothing more. The next leader "
            "continues from the state of the objects. Restart this process to wait on standby"
        )


def _rest_s(turn: _Turn) -> float:
    """Return the pause in seconds before the next attempt of the write. After conflicts, the pauses are shorter,
    because other writers of the object soon finish, and a gang waits for this write."""
    tries = turn.unread if turn.unknown else turn.sent
    if turn.conflict and not turn.unknown:
        tries -= 1 + _PROMPT
    return _BACKOFF_S[min(tries, len(_BACKOFF_S) - 1)]
