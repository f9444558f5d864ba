"""What the page of a large cluster costs: in the browser, and in its server.

A cluster of 5,000 nodes and 10,000 jobs, of which 4,000 run. In the browser: the time until the first paint, until the
table is filtered by one more letter, an update is shown, the Gantt is drawn again; and the memory of the tab. In the
server: the part of one core that it takes for 50 streams while 100 jobs change a second.
`python benchmarks/dashboard.py [JOBS NODES]`; without Chromium or Playwright only the server is measured.
"""

from __future__ import annotations

import asyncio
import dataclasses
import gc
import json
import random
import shutil
import statistics
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from aiohttp import ClientSession, CookieJar
from msgspec.structs import replace

from phalanx.dashboard.access import Doorkeeper, Viewer
from phalanx.dashboard.libraries import missing
from phalanx.dashboard.rows import Board, Facts, JobRow, NodeRow, PageState, PastRow, PlayedRow, QueueRow, ReasonRow
from phalanx.dashboard.serving import Page, served_files, serving

NOW_S, TABS, CHANGES, SECONDS = 1_781_618_520.0, 50, 100, 10
HOUR_S = 3600
CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome")


class Source:
    """Nothing is past, and nothing is asked."""

    async def past(self, from_s: float, to_s: float) -> Sequence[PastRow]:
        return ()

    async def history(self, job: str) -> Sequence[tuple[float, str]]:
        return ()

    async def whatif(self, job: str, change: str) -> Mapping[str, Any]:
        return {}


def cluster(jobs: int, nodes: int) -> PageState:
    rng = random.Random(1)
    names = [f"gpu-{number:05}" for number in range(nodes)]
    rows: dict[str, JobRow] = {}
    for number in range(jobs):
        runs, gpus = number < jobs * 2 // 5, rng.choice((1, 2, 4, 8))
        start = tuple(NOW_S + 60 * number * part for part in (0.5, 0.8, 1.0, 1.3, 1.9, 3.5))
        rows[f"team-{number % 40}/job-{number}"] = JobRow(
            id=f"team-{number % 40}/job-{number}",
            user=f"user-{number % 300}",
            queue=f"queue-{number % 12}",
            state="running" if runs else "queued",
            units=gpus,
            each=gpus,
            pods=1,
            cpu=12 * gpus,
            memory=96 * gpus,
            submitted_s=NOW_S - rng.random() * 86_400,
            since_s=NOW_S - rng.random() * 30_000,
            limit_s=86_400,
            end_s=NOW_S + rng.random() * 40_000 if runs else None,
            places=((names[number % nodes], gpus),) if runs else (),
            reason="" if runs else f"r{number % 40}",
            start_s=() if runs else start,
        )
    played = {
        name: PlayedRow(
            job=name,
            start_s=row.start_s[2] or 0,
            end_s=(row.start_s[2] or 0) + 7200,
            places=((names[at % nodes], row.units),),
        )
        for at, (name, row) in enumerate(rows.items())
        if row.start_s and at % 4 == 0
    }
    return PageState(
        facts=Facts(at_s=NOW_S, cluster="large", unit="nvidia.com/gpu", user="user-1", alive_s=NOW_S),
        jobs=rows,
        queues={f"queue-{number}": QueueRow(name=f"queue-{number}", guaranteed=nodes * 8 / 12) for number in range(12)},
        nodes={name: NodeRow(name=name, group=f"rack-{at // 40}", units=8) for at, name in enumerate(names)},
        reasons={
            f"r{number}": ReasonRow(key=f"r{number}", code="NoRoom", text=f"the largest free node has {number} of 64")
            for number in range(40)
        },
        played=played,
    )


def changed(state: PageState, number: int) -> PageState:
    """The state with `CHANGES` other priorities."""
    names = list(state.jobs)
    rows = dict(state.jobs)
    for at in range(CHANGES):
        name = names[(number * CHANGES + at) % len(names)]
        rows[name] = replace(rows[name], priority=number + 1)
    facts = replace(state.facts, at_s=state.facts.at_s + 1, alive_s=state.facts.at_s)
    return dataclasses.replace(state, facts=facts, jobs=rows)


async def streams(page: Page, state: PageState) -> dict[str, Any]:
    """The processor time of the server, with what its own clients take counted as well: both are in this process."""
    address = f"http://127.0.0.1:{page.door.port}"
    heard = [0] * TABS

    async def tab(at: int) -> None:
        async with ClientSession(address, cookie_jar=CookieJar(unsafe=True)) as browser:
            browser.cookie_jar.update_cookies({page.door.cookie: page.door.begin(Viewer(name="ana"))})
            async with browser.get("/events", params={"since": page.board.id}) as stream:
                async for line in stream.content:
                    heard[at] += line.startswith(b"data")

    tabs = [asyncio.create_task(tab(at)) for at in range(TABS)]
    await asyncio.sleep(1)
    began_s, used_s = time.monotonic(), time.process_time()
    for number in range(SECONDS):
        state = changed(state, number)
        page.publish(state)
        await asyncio.sleep(1)
    part = (time.process_time() - used_s) / (time.monotonic() - began_s)
    for one in tabs:
        one.cancel()
    await asyncio.gather(*tabs, return_exceptions=True)
    return {"tabs": TABS, "changes_a_second": CHANGES, "part_of_a_core": round(part, 3), "least_heard": min(heard)}


def rss_mib() -> int:
    return round(int(Path("/proc/self/statm").read_text().split()[1]) * 4096 / 2**20)


async def memory(page: Page, state: PageState) -> dict[str, Any]:
    """How the memory of the server grows over an hour of changes, one state a second, as fast as they can be made. One
    viewer may list the jobs of one namespace only, and has a state of its own."""
    address = f"http://127.0.0.1:{page.door.port}"
    viewers = (Viewer(name="ana"), Viewer(name="ivo", namespaces=frozenset({"team-1"})))

    async def tab(viewer: Viewer) -> None:
        async with ClientSession(address, cookie_jar=CookieJar(unsafe=True)) as browser:
            browser.cookie_jar.update_cookies({page.door.cookie: page.door.begin(viewer)})
            async with browser.get("/state") as answer:
                known = json.loads(await answer.text())["id"]
            async with browser.get("/events", params={"since": known}) as stream:
                async for _ in stream.content.iter_any():
                    pass

    tabs = [asyncio.create_task(tab(viewer)) for viewer in viewers]
    await asyncio.sleep(2)
    sizes = []
    for number in range(HOUR_S):
        state = changed(state, number)
        page.publish(state)
        await asyncio.sleep(0)
        if number % (HOUR_S // 6) == HOUR_S // 6 - 1:
            gc.collect()
            sizes.append(rss_mib())
    for one in tabs:
        one.cancel()
    await asyncio.gather(*tabs, return_exceptions=True)
    return {"states": HOUR_S, "changes": HOUR_S * CHANGES, "rss_mib": sizes}


def browsed(page: Page, state: PageState, loop: asyncio.AbstractEventLoop) -> dict[str, Any]:
    from playwright.sync_api import sync_playwright

    address = f"http://127.0.0.1:{page.door.port}"
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=CHROMIUM, args=["--no-sandbox", "--enable-precise-memory-info"]
        )
        context = browser.new_context(viewport={"width": 1440, "height": 900})
        secret = asyncio.run_coroutine_threadsafe(begun(page), loop).result()
        context.add_cookies([{"name": page.door.cookie, "value": secret, "url": address}])
        tab = context.new_page()
        tab.goto(f"{address}/#/now")
        tab.wait_for_selector("main")
        paint_ms = tab.evaluate("performance.now()")
        tab.goto(f"{address}/#/jobs")
        tab.wait_for_selector(".gr")
        keys = [
            tab.evaluate(KEYSTROKE, text) for text in ("j", "jo", "job-1", "job-12", "queue:queue-3", "user:user-7")
        ]
        updates = []
        for number in range(5):
            state = changed(state, number)
            before = tab.evaluate("performance.now()")
            asyncio.run_coroutine_threadsafe(shown(page, state), loop).result()
            tab.wait_for_function(
                "(at) => (performance.getEntriesByName('update').at(-1)?.startTime ?? 0) > at", arg=before
            )
            updates.append(tab.evaluate("performance.getEntriesByName('update').at(-1).duration"))
        tab.goto(f"{address}/#/time")
        tab.wait_for_selector(".gscroll")
        frames = [tab.evaluate(FRAME) for _ in range(5)]
        memory = tab.evaluate("performance.memory.usedJSHeapSize")
        browser.close()
    return {
        "first_paint_ms": round(paint_ms),
        "keystroke_ms": round(statistics.median(keys), 1),
        "update_ms": round(statistics.median(updates), 1),
        "gantt_frame_ms": round(statistics.median(frames), 1),
        "heap_mib": round(memory / 2**20, 1),
    }


KEYSTROKE = """async (text) => {
    const box = document.querySelector(".filter input"), began = performance.now();
    box.value = text;
    box.dispatchEvent(new InputEvent("input", { bubbles: true }));
    await new Promise((done) => setTimeout(done));
    return performance.now() - began;
}"""
FRAME = """async () => {
    const began = performance.now();
    document.querySelector(".gscroll").dispatchEvent(new KeyboardEvent("keydown", { key: "ArrowLeft", bubbles: true }));
    await new Promise((done) => requestAnimationFrame(() => setTimeout(done)));
    return performance.now() - began;
}"""


async def begun(page: Page) -> str:
    return page.door.begin(Viewer(name="ana"))


async def shown(page: Page, state: PageState) -> None:
    page.publish(state)


async def main(jobs: int, nodes: int) -> None:
    state = cluster(jobs, nodes)
    page = Page(Source(), Doorkeeper(Viewer(name="ana"), time.monotonic), served_files(), Board())
    page.publish(state)
    size = {"benchmark": "dashboard", "jobs": jobs, "nodes": nodes, "state_bytes": len(page.board.whole())}
    async with serving(page, 0):
        print(json.dumps({**size, "what": "server", **await streams(page, state)}), flush=True)
        print(json.dumps({**size, "what": "memory", **await memory(page, state)}), flush=True)
        if CHROMIUM is None or missing():
            return
        page.pause_s = 0
        found = await asyncio.to_thread(browsed, page, state, asyncio.get_running_loop())
        print(json.dumps({**size, "what": "browser", **found}), flush=True)


if __name__ == "__main__":
    given = [int(word) for word in sys.argv[1:]] or [10_000, 5_000]
    asyncio.run(main(*given))
