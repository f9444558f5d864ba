"""A page that is served, and a state to show."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace as replace_field
from pathlib import Path
from typing import Any

from aiohttp import ClientSession, CookieJar
from msgspec.structs import replace

from phalanx.dashboard.access import Action, Doorkeeper, Viewer
from phalanx.dashboard.rows import Board, Facts, JobRow, NodeRow, PageState, PastRow, QueueRow, ReasonRow
from phalanx.dashboard.serving import Page, served_files, serving
from phalanx.errors import PhalanxError

T0 = 1_781_618_520.0
EVERYTHING = Viewer(name="ana")
OF_VISION = Viewer(name="ivo", namespaces=frozenset({"vision"}))


def state(*jobs: JobRow, at_s: float = T0, **facts: Any) -> PageState:
    """A cluster of one node and one queue, with these jobs."""
    reasons = {
        "r1": ReasonRow(
            key="r1",
            code="NoRoom",
            text="placed 0 of 2 pods; speech/train holds 8 nvidia.com/gpu",
            numbers={"placed": 0, "pods": 2, "holders": {"speech/train": 8, "vision/seg": 4}, "whose": "sofia"},
        )
    }
    return PageState(
        facts=Facts(at_s=at_s, cluster="atlas", unit="nvidia.com/gpu", past=True, **facts),
        jobs={job.id: job for job in jobs},
        queues={"default": QueueRow(name="default")},
        nodes={"gpu-1": NodeRow(name="gpu-1", units=8)},
        reasons=reasons,
    )


SEG = JobRow(id="vision/seg", user="ivo", queue="default", state="queued", units=4, reason="r1")
TRAIN = JobRow(
    id="speech/train",
    user="sofia",
    queue="default",
    state="running",
    units=8,
    array="sofias-sweep",
    message="sofia was here",
    places=(("gpu-1", 8),),
)


class Recorded:
    """A source of one past start, and an agent: answers count how often they were asked for."""

    def __init__(self) -> None:
        self.asked = 0
        self.acted: list[tuple[str, Action, int]] = []
        self.hold = asyncio.Event()
        self.hold.set()

    async def past(self, from_s: float, to_s: float) -> Sequence[PastRow]:
        return [
            PastRow(
                job="speech/old",
                user="sofia",
                queue="default",
                units=8,
                submitted_s=from_s,
                start_s=from_s,
                end_s=to_s,
                outcome="PREEMPTED",
                why="was preempted by vision/seg",
                by="vision/seg",
            )
        ]

    async def output(self, job: str, since: str) -> Sequence[tuple[str, str, str]]:
        return (("2026-06-16T14:00:00Z", "0", "sofia was here"),) if job == "speech/train" else ()

    async def history(self, job: str) -> Sequence[tuple[float, str]]:
        return ((T0 - 3000, "NoRoom"), (T0 - 1200, "Reserved")) if job == "speech/train" else ()

    async def sees(self, namespaces: Collection[str]) -> frozenset[str] | None:
        return None

    async def use(self, job: str) -> Sequence[tuple[str, float, float]]:
        return [("0", 1.5, 4.0)] if job == "vision/seg" else ()

    async def act(self, job: str, action: Action, value: int) -> str:
        self.acted.append((job, action, value))
        if job == "vision/gone":
            raise PhalanxError("there is no job vision/gone")
        return f"{action} {job}"

    async def close(self) -> None:
        pass

    async def whatif(self, job: str, change: str) -> Mapping[str, Any]:
        self.asked += 1
        await self.hold.wait()
        if job != "vision/seg":
            raise PhalanxError(f"there is no waiting job {job}")
        return {"start_s": T0 + 60, "until_s": T0 + 600, "victims": ["speech/train"]}


@asynccontextmanager
async def shown(
    first: PageState | None, viewer: Viewer = EVERYTHING, files: Path | None = None, *, acts: bool = True
) -> AsyncIterator[Page]:
    """A page at a free port, which shows `first`."""
    clock, source = asyncio.get_running_loop().time, Recorded()
    door = Doorkeeper(replace_field(viewer, agent=source), clock)
    page = Page(source, door, served_files(*([files] if files else [])), Board(), pause_s=0, acts=acts)
    if first is not None:
        page.publish(first)
    async with serving(page, 0):
        yield page


def doorkeeper(page: Page) -> Doorkeeper:
    """Return the doorkeeper of the page of `shown`."""
    assert isinstance(page.door, Doorkeeper)
    return page.door


@asynccontextmanager
async def visitor(page: Page, *, enters: bool = True) -> AsyncIterator[ClientSession]:
    """A browser; it has opened the link."""
    address = f"http://127.0.0.1:{doorkeeper(page).port}"
    async with ClientSession(address, cookie_jar=CookieJar(unsafe=True)) as browser:
        if enters:
            async with browser.get(doorkeeper(page).link.removeprefix(address), allow_redirects=False) as answer:
                assert answer.status == 303, await answer.text()
        yield browser


def later(before: PageState, **facts: Any) -> PageState:
    """Return the same state at a later time."""
    return PageState(facts=replace(before.facts, **facts), **before.sections())  # type: ignore[arg-type]  # the others
