"""A key is never worked on twice at a time, never lost, and tried again later when it fails."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from phalanx.client.connection import ApiUnknown
from phalanx.embedded.controllers.runtime.reconciler import Retry, WorkQueue
from tests import clockwork


async def running(queue: WorkQueue, until: Callable[[], bool]) -> None:
    """Run the queue until the condition holds."""
    task = asyncio.ensure_future(queue.run())
    async with asyncio.timeout(240):
        while not until():  # noqa: ASYNC110 -- any condition, of any test
            await asyncio.sleep(0.001)
    task.cancel()


def test_keys_added_again_before_their_turn_are_worked_on_once() -> None:
    async def scenario() -> list[str]:
        seen: list[str] = []

        async def work(key: str) -> None:
            seen.append(key)

        queue = WorkQueue("test", work, workers=2)
        for key in ("a", "b", "a", "a"):
            queue.add(key)
        await running(queue, lambda: len(seen) >= 2 and not len(queue))
        return sorted(seen)

    assert clockwork.run(scenario()) == ["a", "b"]


def test_a_key_added_during_its_work_is_worked_on_once_more_afterwards() -> None:
    async def scenario() -> tuple[int, int]:
        looks, at_once, most = 0, 0, 0

        async def work(key: str) -> None:
            nonlocal looks, at_once, most
            at_once += 1
            most = max(most, at_once)
            if looks == 0:
                queue.add(key)
                queue.add(key)
            await asyncio.sleep(0)
            looks, at_once = looks + 1, at_once - 1

        queue = WorkQueue("test", work, workers=3)
        queue.add("a")
        await running(queue, lambda: looks >= 2 and not len(queue))
        return looks, most

    assert clockwork.run(scenario()) == (2, 1)


def test_failures_are_tried_again_and_other_keys_go_on() -> None:
    async def scenario() -> list[str]:
        seen: list[str] = []

        async def work(key: str) -> None:
            seen.append(key)
            if key == "bad" and seen.count("bad") < 3:
                raise ApiUnknown("no answer")

        queue = WorkQueue("test", work, workers=1, retry=Retry(first_s=0.001, most_s=0.002))
        queue.add("bad")
        queue.add("good")
        await running(queue, lambda: len(seen) >= 4)
        return seen

    assert clockwork.run(scenario()) == ["bad", "good", "bad", "bad"]


def test_of_two_delays_the_earlier_counts() -> None:
    async def scenario(plan: Callable[[WorkQueue], None]) -> int:
        seen = 0

        async def work(key: str) -> None:
            nonlocal seen
            seen += 1

        queue = WorkQueue("test", work)
        plan(queue)
        await running(queue, lambda: seen >= 1)
        await asyncio.sleep(0.01)
        return seen

    def both(queue: WorkQueue) -> None:
        queue.add_after("a", 60)
        queue.add_after("a", 0.001)

    assert clockwork.run(scenario(both)) == 1


def test_the_delay_grows_to_its_limit() -> None:
    retry = Retry(first_s=1, most_s=60)
    assert [retry.after_s(failures) for failures in (1, 2, 3, 7, 500)] == [1, 2, 4, 60, 60]


def test_a_defect_is_told_and_an_answer_of_the_api_is_not() -> None:
    async def scenario() -> list[str]:
        told: list[str] = []
        errors = {"defect": KeyError("spec"), "answer": ApiUnknown("no answer")}
        seen: set[str] = set()

        async def work(key: str) -> None:
            seen.add(key)
            raise errors[key]

        queue = WorkQueue("test", work, retry=Retry(first_s=1000.0))
        queue.on_defect = lambda key, error: told.append(f"{key}: {error!r}")
        for key in errors:
            queue.add(key)
        await running(queue, lambda: len(seen) == 2 and not len(queue))
        return told

    assert clockwork.run(scenario()) == ["defect: KeyError('spec')"]
