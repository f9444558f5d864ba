"""The cluster, followed by watch: a server that changes, one that is away, and objects that bring out a defect."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any
from unittest import mock

import msgspec

from phalanx.cli.views.page import following
from phalanx.cli.views.page.following import Following
from phalanx.client.connection import ApiRefusal
from phalanx.client.kind import JOBS, NODES, Kind
from phalanx.client.tally import Tally
from phalanx.dashboard.rows import Facts, PageState
from phalanx.kube.install.definitions import QUEUES
from tests.cli.page_clusters import gpu_job, gpu_node
from tests.kube.double import Api, Client, Object


class Watched(Client):
    """A server that tells of every change."""

    lists_by_watch = False
    server = "https://watched"

    def __init__(self, api: Api) -> None:
        super().__init__(api)
        self.tally = Tally()

    async def get(self, kind: Kind, name: str, namespace: str = "") -> Object:
        raise ApiRefusal(404, "NotFound", f"{kind.plural} {name!r} not found")

    @asynccontextmanager
    async def stream(self, path: str, *_: Any) -> AsyncIterator[AsyncIterator[bytes]]:
        [kind] = [kind for kind in self.api.objects if kind.path() == path]
        known = {key: obj["metadata"]["resourceVersion"] for key, obj in self.api.objects[kind].items()}

        async def lines() -> AsyncIterator[bytes]:
            while True:
                for key, obj in list(self.api.objects[kind].items()):
                    if known.get(key) != obj["metadata"]["resourceVersion"]:
                        known[key] = obj["metadata"]["resourceVersion"]
                        yield msgspec.json.encode({"type": "MODIFIED", "object": obj})
                await asyncio.sleep(0.01)

        yield lines()


async def shown(api: Api, wanted: Callable[[PageState], bool], then: Callable[[], None] = lambda: None) -> PageState:
    """Follow until a state is as wanted; `then` is done after the first one."""
    connection: Any = Watched(api)
    states: list[PageState] = []
    found: asyncio.Future[PageState] = asyncio.get_running_loop().create_future()

    def publish(state: PageState) -> None:
        states.append(state)
        if len(states) == 1:
            then()
        if wanted(state) and not found.done():
            found.set_result(state)

    task = asyncio.create_task(Following(connection, Facts()).run(publish))
    try:
        async with asyncio.timeout(60):
            await asyncio.wait({task, found}, return_when=asyncio.FIRST_COMPLETED)
            return found.result() if found.done() else await task  # type: ignore[func-returns-value]  # it raises
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def server() -> Api:
    api = Api()
    api.put(QUEUES, {"metadata": {"name": "default"}, "spec": {}})
    api.put(NODES, gpu_node("gpu-1"))
    api.put(JOBS, gpu_job("first", 1, 8, time_limit="1h"))
    return api


async def test_a_new_job_is_shown_and_soon_its_expected_start() -> None:
    api = server()
    with mock.patch.object(following, "_PAUSE_S", 0.05), mock.patch.object(following, "_CHEAP_FORECAST_S", 0.0):
        state = await shown(
            api,
            lambda state: bool(state.jobs.get("default/second") and state.jobs["default/second"].start_s),
            lambda: api.put(JOBS, gpu_job("second", 1, 8, time_limit="1h")) and None,
        )
    assert set(state.jobs) == {"default/first", "default/second"}
    assert state.jobs["default/second"].start_s[-1] is not None


async def test_a_defect_ends_neither_the_page_nor_what_is_shown_later() -> None:
    api, made, calls = server(), following.state_of, 0

    def broken(*arguments: Any) -> PageState:
        nonlocal calls
        calls += 1
        if calls == 1:
            raise LookupError("a defect")
        return made(*arguments)

    quick = mock.patch.multiple(following, state_of=broken, _PAUSE_S=0.05, _IDLE_S=0.05)
    with quick:
        state = await shown(api, lambda state: "default/first" in state.jobs)
    assert calls > 1
    assert state.nodes["gpu-1"].units == 8


async def test_of_many_jobs_the_reasons_are_those_of_the_last_forecast() -> None:
    api = server()
    api.put(JOBS, gpu_job("second", 1, 8, time_limit="1h"))
    with mock.patch.object(following, "MANY_JOBS", 1), mock.patch.object(following, "_PAUSE_S", 0.05):
        state = await shown(api, lambda state: any(job.reason for job in state.jobs.values()))
    [waits] = [job for job in state.jobs.values() if job.reason]
    reason = state.reasons[waits.reason]
    assert (reason.code, reason.numbers["holders"]) == ("NoRoom", {"default/first": 8})
    assert waits.position
