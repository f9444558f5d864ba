"""Stop signals: the first is a wish, the second has its usual effect."""

from __future__ import annotations

import asyncio
import os
import signal

import pytest

from phalanx.cli.terminal.stopping import STOPPING, stop_asked, stop_wish, until_stopped


def send(number: signal.Signals) -> None:
    os.kill(os.getpid(), number)


@pytest.mark.parametrize("number", STOPPING)
async def test_the_first_signal_sets_the_wish(number: signal.Signals) -> None:
    with stop_wish() as wish:
        assert not wish.is_set()
        send(number)
        await asyncio.wait_for(wish.wait(), 60)
        assert wish.number == number
        assert asyncio.get_running_loop().remove_signal_handler(number) is False, "the second has its usual effect"


async def test_a_hangup_that_nohup_ignores_stays_ignored() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with stop_wish() as wish:
            send(signal.SIGHUP)
            send(signal.SIGTERM)
            await asyncio.wait_for(wish.wait(), 60)
            assert wish.number == signal.SIGTERM
    finally:
        signal.signal(signal.SIGHUP, before)


def test_code_that_computes_looks_whether_it_is_to_stop() -> None:
    before = signal.getsignal(signal.SIGTERM)
    with stop_asked() as asked:
        assert not asked()
        send(signal.SIGTERM)
        assert asked()
        assert signal.getsignal(signal.SIGTERM) == before
    assert [signal.getsignal(number) for number in STOPPING][1] == before


def test_signals_that_the_parent_ignores_stay_ignored() -> None:
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with stop_asked() as asked:
            send(signal.SIGINT)
            assert not asked()
    finally:
        signal.signal(signal.SIGINT, before)


async def test_work_ends_by_itself_or_at_a_stop() -> None:
    ended = []

    async def work(for_ever: bool) -> None:
        try:
            if for_ever:
                await asyncio.Event().wait()
        finally:
            ended.append(for_ever)

    await until_stopped(work(False))
    asyncio.get_running_loop().call_soon(send, signal.SIGTERM)
    await until_stopped(work(True))
    assert ended == [False, True]


async def test_work_that_breaks_raises_its_error() -> None:
    async def work() -> None:
        raise ValueError("broken")

    with pytest.raises(ValueError, match="broken"):
        await until_stopped(work())
