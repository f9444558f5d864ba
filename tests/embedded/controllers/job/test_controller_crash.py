"""Kill controllers at any write and restart them: every pod is created once and counted once.

The kill is either just before a request is sent, or just after the server has answered it, with the answer lost. Sent
requests are answered before the restart. Otherwise pods that are created during the next list would be created twice,
as in any cluster, and deleted again.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
from typing import Any

import pytest

from phalanx.client.connection import ApiRefusal, Connection, Object
from phalanx.client.informer import Change, Informer
from phalanx.client.kind import JOBS, PODS
from phalanx.embedded.controllers.job.controller import JobController
from phalanx.embedded.controllers.runtime.calls import Calls, SharedInformers
from phalanx.embedded.controllers.runtime.pod_state import OwnerPodIndex, uid_of
from phalanx.embedded.controllers.runtime.recorder import EventRecorder
from tests.embedded.apiserver.process import ServerProcess
from tests.embedded.controllers.cluster import FAST, Cluster, scenario
from tests.embedded.node.waiting import until


class Mortal(Connection):
    """Dies at its `life`-th write: `dead` is set, and no call returns any more."""

    life = 0
    answers_last = False

    async def request(self, method: str, path: str, **how: Any) -> Any:
        if method != "GET":
            self.life -= 1
        if self.dead.is_set() or (self.life <= 0 and method != "GET" and not self.answers_last):
            await self._die()
        sent = asyncio.ensure_future(super().request(method, path, **how))
        self.sent.append(sent)
        answer = await asyncio.shield(sent)
        if self.life <= 0 and method != "GET":
            await self._die()
        return answer

    async def _die(self) -> None:
        self.dead.set()
        await asyncio.Event().wait()

    @classmethod
    async def born(cls, server: ServerProcess, life: int, answers_last: bool) -> Mortal:
        connection = await cls.open(server.kubeconfig)
        assert isinstance(connection, Mortal)
        connection.life, connection.answers_last, connection.dead = life, answers_last, asyncio.Event()
        connection.sent = []
        return connection

    dead: asyncio.Event
    sent: list[asyncio.Future[Any]]


async def live_once(server: ServerProcess, life: int, answers_last: bool) -> None:
    """The Job controller, from its start to its death."""
    async with await Mortal.born(server, life, answers_last) as connection, SharedInformers(connection) as informers:
        calls, index = Calls(connection, informers), OwnerPodIndex()
        calls.cache(PODS).subscribe(index.take)
        controller = JobController(calls, index, EventRecorder(calls), FAST.job)
        controller.start()
        for kind in (PODS, JOBS):
            await calls.cache(kind).synced.wait()
        tasks = [asyncio.ensure_future(queue.run()) for queue in controller.queues]
        try:
            await connection.dead.wait()
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await asyncio.gather(*connection.sent, return_exceptions=True)


class Kubelet:
    """Ends every pod; those created as number `fail` end badly. `seen` are the uids of all pods ever."""

    def __init__(self, here: Cluster, pods: Informer, fail: set[int]) -> None:
        self.here, self.pods, self.fail, self.seen = here, pods, fail, list[str]()
        self._fresh: asyncio.Queue[tuple[Object, str]] = asyncio.Queue()
        pods.subscribe(self._take)

    def _take(self, change: Change) -> None:
        pod = change.new
        if pod and pod["metadata"]["namespace"] == self.here.namespace and uid_of(pod) not in self.seen:
            self.seen.append(uid_of(pod))
            self._fresh.put_nowait((pod, "Failed" if len(self.seen) - 1 in self.fail else "Succeeded"))

    async def run(self) -> None:
        while True:
            pod, phase = await self._fresh.get()
            with contextlib.suppress(ApiRefusal):  # deleted in the meantime
                await self.here.end(pod, phase)

    async def pods_ever(self) -> int:
        """Return the number of all pods so far. The watch reports in order, so it has reported all earlier pods when it
        reports a new one."""
        last = await self.here.make(PODS, "last", spec={"containers": [{"name": "c", "image": "i"}]})
        await until(lambda: uid_of(last) in self.seen)
        return len(self.seen) - 1


async def survive(here: Cluster, server: ServerProcess, seed: int, fail: set[int], **spec: Any) -> tuple[Any, int]:
    """(final status, pods ever created) of a Job whose controller keeps dying."""
    chance = random.Random(seed)

    async def lives() -> None:
        while True:
            await live_once(server, chance.randint(1, 7), chance.random() < 0.5)

    async with SharedInformers(here.connection) as informers:
        kubelet = Kubelet(here, informers(PODS), fail)
        await here.job(**spec)
        tasks = [asyncio.ensure_future(kubelet.run()), asyncio.ensure_future(lives())]
        try:
            return await here.ended(), await kubelet.pods_ever()
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)


@pytest.mark.parametrize("seed", [1, pytest.param(2, marks=pytest.mark.slow), pytest.param(3, marks=pytest.mark.slow)])
def test_successes_and_failures_are_counted_once(api_server: ServerProcess, seed: int) -> None:
    async def play(here: Cluster) -> None:
        status, pods = await survive(here, api_server, seed, {1, 4}, parallelism=4, completions=6)
        assert (status["last"], status["succeeded"], status["failed"]) == ("Complete CompletionsReached", 6, 2)
        assert pods == 8

    scenario(api_server, play, settings=None)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4, 8))
def test_indexes_are_done_once(api_server: ServerProcess, seed: int) -> None:
    async def play(here: Cluster) -> None:
        spec = {"completionMode": "Indexed", "parallelism": 5, "completions": 5, "backoffLimitPerIndex": 2}
        status, pods = await survive(here, api_server, seed, {0, 3}, **spec)
        assert (status["completedIndexes"], status["succeeded"], status["failed"]) == ("0-4", 5, 2)
        assert pods == 7

    scenario(api_server, play, settings=None)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(8, 11))
def test_a_failed_job_counts_what_it_stopped(api_server: ServerProcess, seed: int) -> None:
    async def play(here: Cluster) -> None:
        spec = {"parallelism": 3, "completions": 3, "backoffLimit": 0}
        status, pods = await survive(here, api_server, seed, set(range(9)), **spec)
        assert (status["last"], status["failed"]) == ("Failed BackoffLimitExceeded", pods)

    scenario(api_server, play, settings=None)
