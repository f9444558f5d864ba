"""A defect ends neither the failing task nor the other tasks."""

from __future__ import annotations

import asyncio

from phalanx.embedded.endless import endless


def test_work_that_fails_is_begun_again() -> None:
    begun: list[int] = []

    async def work() -> None:
        begun.append(len(begun))
        if len(begun) < 4:
            raise KeyError("spec")
        await asyncio.Event().wait()

    async def run() -> None:
        task = asyncio.ensure_future(endless("work", work, first_s=0.0))
        async with asyncio.timeout(240):
            while len(begun) < 4:  # noqa: ASYNC110 -- what is waited for is in the task
                await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait([task])
        assert task.cancelled()

    asyncio.run(run())
    assert begun == [0, 1, 2, 3]
