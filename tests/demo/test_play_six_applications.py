"""The page of the demo: pod by pod six drivers hold all CPUs and wait for each other, as gangs all of them end."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from typing import Any

import pytest
from aiohttp import ClientSession, CookieJar

from phalanx.cli.commands.one_machine.demo import CPUS, _access
from phalanx.client.connection import Connection
from phalanx.dashboard.libraries import missing
from phalanx.demo.play import GANGS, POD_BY_POD, play
from phalanx.demo.stage import SilentStage
from phalanx.demo.trial import APPLICATIONS
from tests.cli.upstart import Up, started

pytestmark = pytest.mark.slow


async def followed(browser: ClientSession, states: list[dict[str, Any]]) -> None:
    """Add the state after each change to `states`."""
    while True:
        async with browser.get("/state") as answer:
            known = await answer.json()
        if "id" not in known:  # the first one is being made
            await asyncio.sleep(0.1)
            continue
        states.append(known)
        async with browser.get("/events", params={"since": known["id"]}) as stream:
            async for line in stream.content:
                if line.startswith(b"data"):
                    break


def jobs_of(state: dict[str, Any], queue: str, *phases: str) -> list[dict[str, Any]]:
    return [job for job in state["jobs"] if job["queue"] == queue and job.get("state", "queued") in phases]


def used(state: dict[str, Any]) -> float:
    return sum(amount for job in state["jobs"] if "places" in job for _, amount in job["places"])


async def watched(up: Up, link: str) -> list[dict[str, Any]]:
    """Play both acts of the demo; all states that the page was shown meanwhile."""
    states: list[dict[str, Any]] = []
    async with ClientSession(link.partition("/open")[0], cookie_jar=CookieJar(unsafe=True)) as browser:
        async with browser.get(f"/open{link.partition('/open')[2]}") as answer:
            assert answer.status == 200
        following = asyncio.create_task(followed(browser, states))
        async with await Connection.open(up.data / "kubeconfig") as connection:
            verdict = await play(connection, _access(up.data / "kubeconfig"), CPUS, SilentStage())
        assert verdict.holds
        async with asyncio.timeout(60):
            while not (states and len(jobs_of(states[-1], GANGS, "complete")) == APPLICATIONS):
                assert not following.done(), following.result()
                await asyncio.sleep(0.1)
        following.cancel()
    return states


@pytest.mark.long
@pytest.mark.skipif(bool(missing()), reason="the libraries of the page are not installed (`make page`)")
async def test_the_page_shows_the_deadlock_and_then_the_gangs(tmp_path: Path) -> None:
    with started(tmp_path / "data", "--dashboard", "--local-cpu", str(CPUS), "--local-gpu", "0") as up:
        link = re.search(r"http://127\.0\.0\.1:\d+/open\?word=\S+", up.text)
        assert link, up.text
        states = await watched(up, link[0])
    # Pod by pod: every CPU is held, each application has one of its three pods, and says why it lacks the others.
    stuck = [
        state
        for state in states
        if used(state) == CPUS
        and [job["placed"] for job in jobs_of(state, POD_BY_POD, "starting") if job.get("reason")] == [1] * APPLICATIONS
    ]
    assert stuck, [(used(state), state["jobs"]) for state in states]
    codes = {reason["key"]: reason["code"] for reason in stuck[-1]["reasons"]}
    assert {codes[job["reason"]] for job in jobs_of(stuck[-1], POD_BY_POD, "starting")} == {"NoRoom"}
    # As gangs: whole or not at all. A picture may show a gang whose pods are being bound, but none that lacks room.
    gangs = [state for state in states if jobs_of(state, GANGS, "running", "queued", "complete")]
    assert any(job.get("placed") for state in gangs for job in jobs_of(state, GANGS, "starting", "running"))
    for state in gangs:
        no_room = {reason["key"] for reason in state["reasons"] if reason["code"] == "NoRoom"}
        partly = [job for job in jobs_of(state, GANGS, "starting") if 0 < job.get("placed", 0) < job["pods"]]
        assert not [job for job in partly if job.get("reason") in no_room], partly
    assert all(job.get("placed", 0) == 0 for state in gangs for job in jobs_of(state, GANGS, "queued"))
    assert len(jobs_of(states[-1], GANGS, "complete")) == APPLICATIONS
