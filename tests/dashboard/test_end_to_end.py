"""`phalanx up --dashboard`, and a browser without a screen that reads what the page is sent."""

from __future__ import annotations

import asyncio
import json
import re
from pathlib import Path
from typing import Any

import pytest
from aiohttp import ClientSession, CookieJar

from phalanx.dashboard.libraries import missing
from tests.cli.upstart import Up, started

pytestmark = pytest.mark.slow


async def changes(browser: ClientSession, model: dict[str, Any], wanted: str, phase: str) -> dict[str, Any]:
    """Follow the stream until the job is in that state; its row."""
    known = [row for row in model["jobs"] if row["id"] == wanted and row.get("state", "queued") == phase]
    if known:
        return known[0]
    async with asyncio.timeout(120), browser.get("/events", params={"since": model["id"]}) as stream:
        while True:
            event = await stream.content.readuntil(b"\n\n")
            assert b"reset" not in event
            if (at := event.find(b"data: ")) < 0:
                continue
            for row in json.loads(event[at + 6 :]).get("jobs", {}).get("set", ()):
                if row["id"] == wanted and row.get("state", "queued") == phase:
                    return row


async def whole(browser: ClientSession) -> dict[str, Any]:
    """The state, as soon as there is one."""
    async with asyncio.timeout(60):
        while True:
            async with browser.get("/state") as answer:
                if answer.status == 200:
                    return await answer.json()
            await asyncio.sleep(0.1)


async def agreeing(browser: ClientSession, up: Up) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """The state, and what `phalanx jobs --json` prints, when both are of the same moment: jobs go on between them."""
    async with asyncio.timeout(60):
        while True:
            model = await whole(browser)
            printed = json.loads((await asyncio.to_thread(up.phalanx, "jobs", "-A", "--json")).stdout)
            shown = {job["id"]: job.get("state", "queued") for job in model["jobs"]}
            waits = [job for job in model["jobs"] if job["id"] == "default/second" and job.get("reason")]
            if waits and shown == {record["job"]: record["state"] for record in printed}:
                return model, printed


@pytest.mark.skipif(bool(missing()), reason="the libraries of the page are not installed (`make page`)")
async def test_the_page_of_a_cluster_follows_its_jobs(tmp_path: Path) -> None:
    def begin() -> Any:
        return started(tmp_path / "data", "--dashboard", "--no-local-node", "--simulate-nodes", "2", "--node-gpu", "8")

    with begin() as up:
        link = re.search(r"http://127\.0\.0\.1:\d+/open\?word=\S+", up.text)
        assert link, up.text
        for name, pods in (("first", "2"), ("second", "1")):
            words = ("--pods", pods, "--gpu", "8", "--time-limit", "1h", "--", "sleep", "600")
            done = await asyncio.to_thread(up.phalanx, "submit", "--name", name, *words)
            assert done.returncode == 0, done.stderr
        async with ClientSession(cookie_jar=CookieJar(unsafe=True)) as opening:
            async with opening.get(link[0]) as answer:
                assert answer.status == 200
                assert "<title>Phalanx</title>" in await answer.text()
            address = link[0].partition("/open")[0]
            async with ClientSession(address, cookie_jar=opening.cookie_jar, connector_owner=False) as browser:
                model = await whole(browser)
                row = await changes(browser, model, "default/first", "running")
                assert [amount for _, amount in row["places"]] == [8, 8]
                model, printed = await agreeing(browser, up)
                reasons = {row["key"]: row["code"] for row in model["reasons"]}
                [row] = [job for job in model["jobs"] if job["id"] == "default/second"]
                [waits] = [one for one in printed if one["job"] == "default/second"]
                assert waits["reason"]["code"] == reasons[row["reason"]]
                await asyncio.to_thread(up.kubectl, "delete", "job", "first")
                await changes(browser, model, "default/second", "running")
        up.stop()
