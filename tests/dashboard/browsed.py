"""The page in a real browser: a server in a thread of its own, and Chromium, for all tests of a module."""

from __future__ import annotations

import asyncio
import shutil
import threading
from collections.abc import Callable, Collection, Coroutine, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from phalanx.dashboard.access import Action, Doorkeeper, Viewer
from phalanx.dashboard.libraries import missing
from phalanx.dashboard.rows import Board, PageState, PastRow
from phalanx.dashboard.serving import Page, served_files, serving
from phalanx.errors import PhalanxError
from tests.dashboard.atlas import NOW_S, Atlas, atlas

ROOT = Path(__file__).parents[2]
CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
SHOTS = ROOT / "out" / "page"
AXE = ROOT / "node_modules" / "axe-core" / "axe.min.js"
ANA = Viewer(name="ana")


def unavailable() -> str:
    """Why there can be no browser here; empty: there can."""
    if find_spec("playwright") is None:
        return "Playwright for Python is not installed (requirements-dev.txt)"
    if CHROMIUM is None:
        return "there is no Chromium (Debian: apt-get install chromium)"
    if missing() or not AXE.exists():
        return "the libraries of the page are not installed (`make page`)"
    return ""


class Answers:
    """The source of a served atlas: its past, and what would start a job sooner; and the agent of its viewers."""

    def __init__(self, past: Sequence[PastRow]) -> None:
        self._past = past
        self.asked = 0
        self.acted: list[tuple[str, Action, int]] = []

    async def past(self, from_s: float, to_s: float) -> Sequence[PastRow]:
        return self._past

    async def output(self, job: str, since: str) -> Sequence[tuple[str, str, str]]:
        lines = [("2026-06-16T14:00:01Z", "0", "epoch 1"), ("2026-06-16T14:00:02Z", "1", "<b>loss</b> 0.5")]
        if job == "ci/silent":
            raise PhalanxError("the pods of ci/silent are gone, and their output with them")
        return [line for line in lines if line[0] > since]

    async def sees(self, namespaces: Collection[str]) -> frozenset[str] | None:
        return None

    async def use(self, job: str) -> Sequence[tuple[str, float, float]]:
        return [("0", 10.5, 40.0), ("1", 1.25, 38.5)]

    async def act(self, job: str, action: Action, value: int) -> str:
        self.acted.append((job, action, value))
        return f"{job}: {action}"

    async def close(self) -> None:
        pass

    async def history(self, job: str) -> Sequence[tuple[float, str]]:
        return ((NOW_S - 3000, "NoRoom"), (NOW_S - 1200, "Reserved")) if job == "language/data-mix-9" else ()

    async def whatif(self, job: str, change: str) -> Mapping[str, Any]:
        self.asked += 1
        offered = [
            {"key": "nodes", "what": "Two nodes more like gpu-1a", "command": "phalanx whatif --add-nodes 2xgpu-1a"},
            {"key": "pods", "what": "2 pods instead of 4", "command": "kubectl delete job"},
        ]
        if not change:
            return {"start_s": NOW_S + 190 * 60, "until_s": NOW_S + 7 * 86_400, "victims": [], "changes": offered}
        after_s, victims = {"nodes": (5400.0, ["ci/gpu-test-1"]), "pods": (190 * 60.0, [])}[change]
        return {"start_s": NOW_S + after_s, "until_s": NOW_S + 7 * 86_400, "victims": victims}


@dataclass(slots=True)
class Server:
    """A served page. Its methods may be called from the test's thread."""

    page: Page
    door: Doorkeeper
    source: Answers
    loop: asyncio.AbstractEventLoop
    stop: Callable[[], Coroutine[Any, Any, None]]
    start: Callable[[], Coroutine[Any, Any, None]]
    at: Atlas = field(default_factory=atlas)

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.door.port}"

    def do(self, work: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(30)

    def show(self, state: PageState) -> None:
        async def publish() -> None:
            self.page.publish(state)

        self.do(publish())

    def session(self, viewer: Viewer = ANA) -> dict[str, Any]:
        """The cookie of a new session."""

        async def begin() -> str:
            return self.door.begin(replace(viewer, agent=self.source))

        return {"name": self.door.cookie, "value": self.do(begin()), "url": self.address}


@contextmanager
def served() -> Iterator[Server]:
    """A page that shows the atlas."""
    loop, at = asyncio.new_event_loop(), atlas()
    thread = threading.Thread(target=loop.run_forever, name="page", daemon=True)
    thread.start()
    source = Answers(at.past)
    door = Doorkeeper(replace(ANA, agent=source), loop.time)
    page = Page(source, door, served_files(), Board(), pause_s=0)
    running: list[Any] = []

    async def start() -> None:
        running.append(serving(page, door.port))
        await running[-1].__aenter__()

    async def stop() -> None:
        await running.pop().__aexit__(None, None, None)

    server = Server(page, door, source, loop, stop, start, at)
    server.do(start())
    server.show(at.state)
    try:
        yield server
    finally:
        server.do(stop())
        loop.call_soon_threadsafe(loop.stop)
        thread.join(10)
        loop.close()


@contextmanager
def chromium() -> Iterator[Any]:
    """A browser without a window."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"])
        try:
            yield browser
        finally:
            browser.close()


WATCH = (
    "addEventListener('securitypolicyviolation', (e) => console.error('CSP: ' + e.violatedDirective + e.blockedURI));"
)


@dataclass(slots=True)
class Tab:
    """A tab of the page. `wrong`: what the browser complained about, which every test ends by looking at."""

    page: Any
    server: Server
    wrong: list[str] = field(default_factory=list)

    def open(self, route: str = "#/now") -> None:
        self.page.goto(f"{self.server.address}/{route}")
        self.page.wait_for_selector("main")

    def route(self, route: str) -> None:
        """Go to another view, without loading the page again."""
        self.page.evaluate("(to) => { location.hash = to }", route)
        self.page.wait_for_function("(to) => location.hash === to", arg=route)

    @property
    def text(self) -> str:
        return str(self.page.inner_text("body"))


@contextmanager
def tab(browser: Any, server: Server, viewer: Viewer | None = ANA, **options: Any) -> Iterator[Tab]:
    """A new browser's tab with a session of the viewer; None: without one. What the browser complains about fails."""
    usual = {"timezone_id": "UTC", "viewport": {"width": 1440, "height": 900}, "reduced_motion": "reduce"}
    context = browser.new_context(**{**usual, **options})
    context.add_init_script(WATCH)
    if viewer is not None:
        context.add_cookies([server.session(viewer)])
    found = watched(context, server)
    try:
        yield found
    finally:
        context.close()
    assert found.wrong == []


def watched(context: Any, server: Server) -> Tab:
    """A tab whose complaints are written down."""
    found = Tab(context.new_page(), server)
    found.page.on("console", lambda said: said.type in ("error", "warning") and found.wrong.append(said.text))
    found.page.on("pageerror", lambda error: found.wrong.append(str(error)))
    return found


needs_browser = pytest.mark.skipif(bool(unavailable()), reason=unavailable())
