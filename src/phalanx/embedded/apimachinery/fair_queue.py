"""Share the event loop fairly between users.

The server executes one step of one request at a time, so a user with many expensive requests could delay all other
users. The queue measures the time that each request takes on the event loop, and adds this time to the recent usage of
the request's user. The usage decays with the time constant `_FADES_S`. Requests of a user with little recent usage
start at once. Requests of other users wait, each in the queue of its user. The fair queue starts one of these requests
at a time: the first one of the user with the least usage. Between two of these requests, the event loop runs a few
iterations. In these iterations, the server handles requests of users with little usage. So a request of a user with
little usage waits for at most one expensive request, and the loop is never idle while requests wait.

The length of a user's queue is limited, and so is the time that a request may wait. If a limit is exceeded, the server
refuses the request with 429 before it reads the body. The method is fair queuing by user, as in API Priority and
Fairness (KEP-1040), but with measured costs instead of estimated seats. As in KEP-1040, members of system:masters are
exempt.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections import deque
from collections.abc import Callable, Coroutine, Generator
from typing import Any, TypeVar

_FREE_S = 0.1  # requests of users whose recent usage is at most this number of seconds do not wait
_FADES_S = 5.0
_QUEUE_MOST = 128  # the maximum number of waiting requests of one user
_PATIENCE_S = 15.0
# the number of iterations of the loop between two queued requests. In these iterations, the server handles requests of
# other users.
_ROUNDS = 4
_ACCOUNTS_MOST = 1024

Result = TypeVar("Result")


class TooManyRequests(Exception):
    """Raised if the user has too many waiting requests, or if a request has waited for too long."""


class FlowAccount:
    """The recent usage of a user: the time of the user's requests on the event loop, in seconds."""

    def __init__(self) -> None:
        self._used_s, self._at_s = 0.0, 0.0

    def used_s(self, now_s: float) -> float:
        return self._used_s * math.exp((self._at_s - now_s) / _FADES_S)

    def add(self, cost_s: float, now_s: float) -> None:
        self._used_s, self._at_s = self.used_s(now_s) + cost_s, now_s


class FairQueue:
    """The queues of all users. `run` executes the work of one request."""

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        self._clock = clock
        self._accounts: dict[str, FlowAccount] = {}
        self._waiting: dict[str, deque[asyncio.Future[None]]] = {}
        self._serving = False

    async def run(self, user: str, work: Coroutine[Any, Any, Result]) -> Result:
        """Execute `work` when the user's request is next, and return its result. Raises TooManyRequests before `work`
        has started."""
        account = self._account(user)
        if account.used_s(self._clock()) > _FREE_S:
            try:
                await self._turn(user)
            except BaseException:
                work.close()
                raise
        answer: Result = await _Measured(work, account, self._clock)
        return answer

    def _account(self, user: str) -> FlowAccount:
        found = self._accounts.get(user)
        if found is None:
            if len(self._accounts) >= _ACCOUNTS_MOST:
                now_s = self._clock()
                kept = sorted(self._accounts.items(), key=lambda one: one[1].used_s(now_s))[_ACCOUNTS_MOST // 2 :]
                self._accounts = dict(kept)
            found = self._accounts[user] = FlowAccount()
        return found

    async def _turn(self, user: str) -> None:
        queue = self._waiting.setdefault(user, deque())
        if len(queue) >= _QUEUE_MOST:
            raise TooManyRequests
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        queue.append(turn)
        if not self._serving:
            self._serving = True
            self._after(_ROUNDS)
        try:
            async with asyncio.timeout(_PATIENCE_S):
                await turn
        except TimeoutError:
            raise TooManyRequests from None

    def _after(self, rounds: int) -> None:
        asyncio.get_running_loop().call_soon(self._after, rounds - 1) if rounds else self._serve()

    def _serve(self) -> None:
        """Start the next request: the first one of the user with the least usage."""
        now_s = self._clock()
        while self._waiting:
            user = min(self._waiting, key=lambda name: self._account(name).used_s(now_s))
            turn = self._waiting[user].popleft()
            if not self._waiting[user]:
                del self._waiting[user]
            if not turn.done():
                turn.set_result(None)
                self._after(_ROUNDS)
                return
        self._serving = False


class _Measured:
    """A coroutine whose time on the event loop is added to a user's account, step by step."""

    def __init__(self, work: Coroutine[Any, Any, Any], account: FlowAccount, clock: Callable[[], float]) -> None:
        self._work, self._account, self._clock = work, account, clock

    def __await__(self) -> Generator[Any, Any, Any]:
        send, thrown = self._work.send, None
        while True:
            begun_s = self._clock()
            try:
                waits_for = self._work.throw(thrown) if thrown is not None else send(None)
            except StopIteration as end:
                return end.value
            finally:
                now_s = self._clock()
                self._account.add(now_s - begun_s, now_s)
            try:
                thrown = None
                yield waits_for
            except BaseException as error:  # pass exceptions on to the coroutine, for example a cancellation
                thrown = error
