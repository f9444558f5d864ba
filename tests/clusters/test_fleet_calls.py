"""Calls to a worker: few at a time, and the jobs that wait for one have their turns in order."""

from __future__ import annotations

import asyncio

import pytest

from phalanx.client.kind import JOBS
from phalanx.clusters.copies.sendable import Key
from phalanx.clusters.workers.fleet import AT_ONE, WorkerAway, WorkerBusy, WorkerCalls
from tests.clusters.several import Worker
from tests.kube.double import Api


async def test_jobs_call_a_slow_cluster_in_the_order_in_which_they_asked() -> None:
    looked: list[Key] = []
    found, worker = WorkerCalls(looked.append), Worker("w1", Api(), lambda write: None, looked.append)
    keys = [Key(JOBS, f"default/j{number}") for number in range(AT_ONE + 4)]
    answers = [asyncio.Event() for _ in keys]

    async def call(number: int) -> None:
        async with found.to(worker, keys[number]):  # type: ignore[arg-type]  # a double
            await answers[number].wait()

    open_ = [asyncio.ensure_future(call(number)) for number in range(AT_ONE)]
    await asyncio.sleep(0)
    for number in range(AT_ONE, AT_ONE + 3):
        with pytest.raises(WorkerBusy):
            await call(number)
    answers[0].set()
    await open_[0]
    assert looked == [keys[AT_ONE]], "the first in the line has its turn"
    for number in (AT_ONE + 3, AT_ONE + 1):
        with pytest.raises(WorkerBusy):
            await call(number)  # newcomers, and others in the line, wait
    looked.clear()
    found.leave(keys[AT_ONE])
    assert looked == [keys[AT_ONE + 1]], "a job that needs no call any more gives its turn on"
    open_.append(asyncio.ensure_future(call(AT_ONE + 1)))
    await asyncio.sleep(0)
    assert found.open["w1"] == AT_ONE
    for task in open_:
        task.cancel()
    await asyncio.gather(*open_, return_exceptions=True)
    assert not found.open["w1"]


async def test_a_worker_without_a_connection_is_not_called() -> None:
    found, worker = WorkerCalls(lambda key: None), Worker("w1", Api(), lambda write: None, lambda key: None)
    worker.link = None
    with pytest.raises(WorkerAway):
        async with found.to(worker, Key(JOBS, "default/one")):  # type: ignore[arg-type]  # a double
            raise AssertionError("it was called")
    assert not found.open["w1"]


async def test_jobs_behind_those_that_join_another_line_have_their_turn() -> None:
    looked: list[Key] = []
    found = WorkerCalls(looked.append)
    here, there = (Worker(name, Api(), lambda write: None, looked.append) for name in ("w1", "w2"))
    over, keys = asyncio.Event(), [Key(JOBS, f"default/j{number}") for number in range(3 * AT_ONE + 1)]

    async def call(worker: Worker, key: Key) -> None:
        async with found.to(worker, key):  # type: ignore[arg-type]  # a double
            await over.wait()

    open_ = [asyncio.ensure_future(call(there, key)) for key in keys[:AT_ONE]]
    open_ += [asyncio.ensure_future(call(here, key)) for key in keys[AT_ONE : 2 * AT_ONE]]
    await asyncio.sleep(0)
    moved, last = keys[2 * AT_ONE : -1], keys[-1]
    for key in (*moved, last):
        with pytest.raises(WorkerBusy):
            await call(here, key)
    for task in open_[AT_ONE:]:
        task.cancel()
    await asyncio.gather(*open_[AT_ONE:], return_exceptions=True)
    assert set(looked) == set(moved), "as many as there are free calls"
    for key in moved:
        with pytest.raises(WorkerBusy):
            await call(there, key)
    assert last in looked
    over.set()
    await asyncio.gather(*open_, return_exceptions=True)
