"""A loop that is kept too long says where it was."""

from __future__ import annotations

import asyncio
import logging
import time

import pytest

from phalanx.kube.leader import stalls_logged


def keep_the_loop(caplog: pytest.LogCaptureFixture) -> None:
    """Until the stall was told."""
    end_s = time.monotonic() + 30.0
    while not caplog.records and time.monotonic() < end_s:
        pass


def test_a_stall_is_logged_with_what_ran_and_its_length(caplog: pytest.LogCaptureFixture) -> None:
    async def scene() -> None:
        with stalls_logged(limit_s=0.05):
            await asyncio.sleep(0.06)
            keep_the_loop(caplog)
            end_s = asyncio.get_running_loop().time() + 30.0
            while len(caplog.records) < 2 and asyncio.get_running_loop().time() < end_s:  # noqa: ASYNC110 (a thread logs)
                await asyncio.sleep(0.01)

    with caplog.at_level(logging.WARNING):
        asyncio.run(scene())
    told, over = (record.getMessage() for record in caplog.records[:2])
    assert "keep_the_loop" in told
    assert over.startswith("the event loop runs again, after")


def test_a_loop_that_turns_is_not_told(caplog: pytest.LogCaptureFixture) -> None:
    async def scene() -> None:
        with stalls_logged(limit_s=5.0):
            await asyncio.sleep(0.05)

    with caplog.at_level(logging.WARNING):
        asyncio.run(scene())
    assert not caplog.records
