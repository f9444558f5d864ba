"""The page in Chromium: its layout at each width, its keys, and its updates with the cluster."""

from __future__ import annotations

import io
import os
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from PIL import Image

from phalanx.dashboard.rows import JobRow, PageState
from tests.dashboard.atlas import NOW_S
from tests.dashboard.browsed import ANA, AXE, SHOTS, Server, Tab, chromium, needs_browser, served, tab, watched

pytestmark = [pytest.mark.slow, needs_browser]

VIEWS = {
    "now": "#/now",
    "jobs": "#/jobs",
    "waiting": "#/job/language/data-mix-9",
    "preempted": "#/job/language/llm-3b-abl-1",
    "time": "#/time",
    "shares": "#/shares",
}
FACTS = {
    "now": ("can never start as it is", "rack 1", "What starts next", "+59 of its array"),
    "jobs": ("sweep-aug-000", "+59", "can never start", "arrays folded"),
    "waiting": ("placed 1 of 4 pods", "Jobs that hold most of it", "with a probability of 50 %", "1 of"),
    "preempted": ("It was preempted by", "search stays within its guarantee", "GPU hours run again"),
    "time": ("Which job was preempted by which", "llm-3b-abl-1"),
    "shares": ("More, or less, than its guarantee", "borrowed", "yusuf"),
}


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with served() as found:
        yield found


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with chromium() as found:
        yield found


@pytest.fixture(autouse=True)
def fresh(server: Server) -> None:
    server.show(server.at.state)


def changed(server: Server, *jobs: JobRow, gone: tuple[str, ...] = (), later_s: float = 1) -> PageState:
    """The atlas a moment later, with these jobs."""
    state = server.at.state
    kept = {name: job for name, job in state.jobs.items() if name not in gone} | {job.id: job for job in jobs}
    facts = replace(state.facts, at_s=state.facts.at_s + later_s, alive_s=state.facts.at_s)
    return PageState(**{**state.sections(), "facts": facts, "jobs": kept})  # type: ignore[arg-type]  # the other sections


# --- how it looks -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_every_view_at_every_width(browser: Any, server: Server, theme: str) -> None:
    """No complaint, no sideways scroll, one heading, nothing that axe finds; and its facts as text."""
    SHOTS.mkdir(parents=True, exist_ok=True)
    with tab(browser, server, color_scheme=theme) as one:
        one.open()
        one.page.evaluate(AXE.read_text())
        for width, (view, route) in product((1440, 768, 390), VIEWS.items()):
            where = f"{view}, {theme}, {width}"
            one.page.set_viewport_size({"width": width, "height": 844})
            one.route(route)
            one.page.wait_for_function("(text) => document.body.innerText.includes(text)", arg=FACTS[view][0])
            text = one.page.inner_text("main")
            assert [fact for fact in FACTS[view] if fact not in text] == [], where
            assert one.page.evaluate("document.documentElement.scrollWidth") <= width, where
            assert one.page.locator("h1").count() == 1, where
            assert one.page.evaluate("document.querySelectorAll('*').length") < 1900, where
            assert axe(one) == [], where
            one.page.screenshot(path=SHOTS / f"{view}-{theme}-{width}.png")


def axe(one: Tab) -> list[str]:
    """What axe finds: rule, and where."""
    found = one.page.evaluate("axe.run({ resultTypes: ['violations'] })")
    return [f"{each['id']}: {[node['target'] for node in each['nodes'][:3]]}" for each in found["violations"]]


def test_it_needs_no_script_of_others_and_no_style_in_its_markup(browser: Any, server: Server) -> None:
    with tab(browser, server) as one:
        addresses: list[str] = []
        one.page.on("request", lambda request: addresses.append(request.url))
        one.open()
        for route in VIEWS.values():
            one.route(route)
        assert addresses
        assert [address for address in addresses if not address.startswith(server.address)] == []


# --- keys -------------------------------------------------------------------------------------------------------------


def test_everything_by_keys(browser: Any, server: Server) -> None:
    with tab(browser, server) as one:
        one.open()
        press = one.page.keyboard.press
        press("g"), press("j")
        one.page.wait_for_selector(".filter input")
        press("/")
        one.page.keyboard.type("queue:pretrain is:waiting data-mix-9")
        one.page.wait_for_function("() => document.querySelectorAll('.gr').length === 1")
        assert "data-mix-9" in one.page.evaluate("decodeURIComponent(location.hash)")
        press("Escape"), press("j"), press("Enter")
        one.page.wait_for_function("() => location.hash === '#/job/language/data-mix-9'")
        press("Control+k")
        one.page.keyboard.type("gpu-1a")
        press("Enter")
        one.page.wait_for_function("() => decodeURIComponent(location.hash) === '#/jobs?q=node:gpu-1a'")
        one.page.go_back()
        one.page.wait_for_function("() => location.hash === '#/job/language/data-mix-9'")
        press("g"), press("t")
        one.page.focus(".gscroll")
        before = one.page.inner_text("[role=status]")
        press("ArrowLeft"), press("+")
        one.page.wait_for_function("(before) => document.querySelector('p.sr').innerText !== before", arg=before)
        press("?")
        one.page.wait_for_selector("dialog[open]")
        one.page.click("dialog input")
        press("Escape")
        press("g"), press("n")
        assert one.page.evaluate("location.hash") == "#/time", "keys of one letter are off"


def test_the_skip_link_is_the_first_stop(browser: Any, server: Server) -> None:
    with tab(browser, server) as one:
        one.open()
        one.page.keyboard.press("Tab")
        assert one.page.evaluate("document.activeElement.className") == "skip"
        one.page.keyboard.press("Enter")
        assert one.page.evaluate("document.activeElement.id") == "main"


def test_a_link_says_what_is_shown(browser: Any, server: Server) -> None:
    with tab(browser, server) as one:
        one.open("#/jobs?q=is:stuck")
        one.page.wait_for_function("() => document.querySelectorAll('.gr').length === 1")
        assert "too-large-1" in one.text
        one.page.click(".chip:has-text('can never start')")
        one.page.wait_for_function("() => document.querySelectorAll('.gr').length > 10")
        assert one.page.evaluate("location.hash") == "#/jobs"


# --- what changes -----------------------------------------------------------------------------------------------------

NEW = JobRow(
    id="vision/new-one",
    user="ivo",
    queue="vision",
    state="running",
    units=1,
    each=1,
    pods=1,
    placed=1,
    since_s=NOW_S,
    submitted_s=NOW_S - 60,
    places=(("gpu-1a", 1),),
)


def test_a_change_is_shown_at_once(browser: Any, server: Server) -> None:
    with tab(browser, server) as one:
        one.open("#/jobs?q=new-one")
        one.page.wait_for_selector("text=No job matches")
        following(one)
        server.show(changed(server, NEW))
        one.page.wait_for_selector(".gr >> text=new-one")


def following(one: Tab) -> None:
    one.page.wait_for_selector(".live:not(.lost) >> text=live")
    one.page.wait_for_function(
        "() => performance.getEntriesByType('resource').some((one) => one.name.includes('/state'))"
    )


def test_rows_keep_their_places_under_the_pointer(browser: Any, server: Server) -> None:
    with tab(browser, server) as one:
        one.open("#/jobs?q=vision/")
        one.page.hover(".gr >> nth=0")
        shown = one.page.locator(".gr").count()
        server.show(changed(server, NEW))
        one.page.wait_for_selector(".news >> text=1 change")
        assert one.page.locator(".gr").count() == shown
        one.page.click(".news")
        one.page.wait_for_selector(".gr >> text=new-one")


def test_a_job_that_ends_while_its_page_is_open(browser: Any, server: Server) -> None:
    with tab(browser, server) as one:
        server.show(changed(server, NEW))
        one.open("#/job/vision/new-one")
        one.page.wait_for_selector("text=It runs for")
        server.show(changed(server, replace(NEW, state="failed", message="exit code 3", since_s=NOW_S + 2), later_s=5))
        one.page.wait_for_selector("text=It failed")
        assert "exit code 3" in one.text
        server.show(changed(server, later_s=6))
        one.page.wait_for_selector("text=No such job")


def test_the_stream_is_lost_and_comes_back(browser: Any, server: Server) -> None:
    with tab(browser, server) as one:
        one.open("#/jobs?q=new-one")
        following(one)
        server.do(server.stop())
        one.page.wait_for_selector("[role=alert] >> text=The connection was lost")
        assert one.page.locator("text=No job matches").count(), "what was known stays"
        server.show(changed(server, NEW))
        server.do(server.start())
        one.page.click("text=Try now")
        one.page.wait_for_selector(".gr >> text=new-one")
        one.page.wait_for_selector("[role=alert]", state="detached")
        one.wrong.clear()  # the browser says that nobody answered


def test_after_too_many_changes_the_page_asks_for_everything(browser: Any, server: Server) -> None:
    with tab(browser, server) as one:
        one.open("#/jobs?q=new-one")
        following(one)
        server.do(server.stop())
        one.page.wait_for_selector("[role=alert]")
        for number in range(140):
            server.show(changed(server, later_s=number))
        server.show(changed(server, NEW, later_s=200))
        server.do(server.start())
        one.page.click("text=Try now")
        one.page.wait_for_selector(".gr >> text=new-one")
        one.wrong.clear()


def test_a_scheduler_that_is_silent_is_said(browser: Any, server: Server) -> None:
    with tab(browser, server) as one:
        one.open()
        state = server.at.state
        silent = replace(state.facts, at_s=NOW_S + 400)
        server.show(PageState(**{**state.sections(), "facts": silent}))  # type: ignore[arg-type]  # the other sections
        one.page.wait_for_selector("text=The scheduler has not been at work for 7m")


def test_tabs_share_one_stream(browser: Any, server: Server) -> None:
    with tab(browser, server) as one:
        one.open("#/jobs?q=new-one")
        other = watched(one.page.context, server)
        other.open("#/jobs?q=new-one")
        for each in (one, other):
            following(each)
        mine = max(server.door.sessions, key=lambda session: session.used_s)
        server.show(changed(server, NEW))
        for each in (one, other):
            each.page.wait_for_selector(".gr >> text=new-one")
        assert mine.streams == 1
        one.page.goto("about:blank")
        server.show(changed(server, later_s=2))
        other.page.wait_for_selector("text=No job matches")
        assert other.wrong == []


def test_what_would_start_it_sooner(browser: Any, server: Server) -> None:
    with tab(browser, server) as one:
        one.open("#/job/language/data-mix-9")
        one.page.click("text=Play it forward")
        one.page.wait_for_selector(".wi >> text=1h 40m sooner")
        one.page.wait_for_selector(".wi >> text=no difference")
        assert "preempts ci/gpu-test-1" in one.page.inner_text(".wi")


def test_the_history_has_each_change_of_the_reason(browser: Any, server: Server) -> None:
    with tab(browser, server) as one:
        one.open("#/job/language/data-mix-9")
        one.page.wait_for_selector(".story li:has-text('13:12') >> text=Waited for capacity")
        one.page.wait_for_selector(".story li:has-text('13:42') >> text=Waited so as not to delay another")


def test_a_job_that_holds_nodes_and_waits_for_more_says_both(browser: Any, server: Server) -> None:
    """Pod by pod, jobs hold what other jobs wait for."""
    half = replace(NEW, state="starting", pods=3, placed=1, reason="room")
    with tab(browser, server) as one:
        server.show(changed(server, half))
        one.open("#/jobs?q=new-one")
        one.page.wait_for_selector(".gr >> text=1 of 3 pods")
        one.route("#/job/vision/new-one")
        one.page.wait_for_selector("text=It holds nodes for 1 of its 3 pods")
        assert "NoRoom" in one.text
        assert "Jobs that hold most of it" in one.text


def test_the_output_of_a_job_is_shown_as_text(browser: Any, server: Server) -> None:
    with tab(browser, server) as one:
        server.show(changed(server, NEW))
        one.open("#/job/vision/new-one")
        assert "epoch 1" not in one.text, "it is read on demand"
        one.page.click("text=Show the output")
        one.page.wait_for_selector(".output >> text=epoch 1")
        assert "<b>loss</b> 0.5" in one.page.inner_text(".output")
        one.page.evaluate(AXE.read_text())
        assert axe(one) == []


def test_a_job_is_changed_by_keys_after_a_question(browser: Any, server: Server) -> None:
    state = server.at.state
    queues = {**state.queues, "pretrain": replace(state.queues["pretrain"], order="multifactor")}
    server.show(PageState(**{**state.sections(), "facts": state.facts, "queues": queues}))  # type: ignore[arg-type]  # the other sections
    server.source.acted.clear()
    with tab(browser, server, viewport={"width": 390, "height": 844}) as one:
        one.open("#/job/language/data-mix-9")
        press = one.page.keyboard.press
        one.page.focus("text=Cancel…")
        press("Enter")
        one.page.wait_for_selector("dialog >> text=phalanx cancel language/data-mix-9")
        one.page.evaluate(AXE.read_text())
        assert axe(one) == []
        press("Enter")  # what has the focus keeps the job
        one.page.wait_for_selector("dialog", state="detached")
        assert server.source.acted == []
        one.page.focus("text=Priority…")
        press("Enter")
        one.page.fill("dialog input", "250")
        one.page.wait_for_selector("dialog >> text=phalanx nice language/data-mix-9 --value 250")
        press("Enter")
        one.page.wait_for_selector("[role=status] >> text=language/data-mix-9: nice")
        assert server.source.acted == [("language/data-mix-9", "nice", 250)]
        one.page.screenshot(path=SHOTS / "actions-390.png", full_page=True)
        server.page.acts = False
        try:
            one.page.reload()
            one.page.wait_for_selector("text=The same in a terminal")
            assert one.page.locator("text=Cancel…").count() == 0
        finally:
            server.page.acts = True


def test_a_running_job_says_what_it_uses(browser: Any, server: Server) -> None:
    with tab(browser, server) as one:
        server.show(changed(server, replace(NEW, pods=2, placed=2, cpu=24, memory=192)))
        one.open("#/job/vision/new-one")
        one.page.wait_for_selector(".use >> text=11.75 of 24 cores")
        assert "1.25–10.5 a pod" in one.page.inner_text("main")
        one.page.evaluate(AXE.read_text())
        assert axe(one) == []
        one.page.screenshot(path=SHOTS / "use.png")


def test_why_there_is_no_output_is_said(browser: Any, server: Server) -> None:
    with tab(browser, server) as one:
        server.show(changed(server, replace(NEW, id="ci/silent", state="complete")))
        one.open("#/job/ci/silent")
        one.page.click("text=Show the output")
        one.page.wait_for_selector("text=the pods of ci/silent are gone")
        one.wrong.clear()  # the browser says that the answer was 404


def test_the_theme_and_the_zone_are_kept(browser: Any, server: Server) -> None:
    with tab(browser, server, color_scheme="light") as one:
        one.open()
        background = "getComputedStyle(document.body).backgroundColor"
        light = one.page.evaluate(background)
        one.page.keyboard.press("t")
        assert one.page.evaluate(background) != light
        one.page.reload()
        one.page.wait_for_selector("main")
        assert one.page.evaluate(background) != light


@pytest.mark.parametrize("zone", [("Asia/Tokyo", "23:02"), ("America/New_York", "10:02")])
def test_times_are_of_the_browsers_zone_or_utc(browser: Any, server: Server, zone: tuple[str, str]) -> None:
    with tab(browser, server, ANA, timezone_id=zone[0]) as one:
        one.open()
        assert f"live, {zone[1]}" in one.text
        one.page.click(".live")
        one.page.wait_for_selector("text=live, 14:02 UTC")


# --- the pictures of the guide ----------------------------------------------------------------------------------------

DOCS = Path(__file__).parents[2] / "docs"
PICTURES = {
    "dashboard-now.png": "#/now",
    "dashboard-job.png": "#/job/language/llm-3b-abl-1",
    "dashboard-time.png": "#/time",
}


def test_the_pictures_of_the_guide(browser: Any, server: Server) -> None:
    """`PHALANX_REWRITE=1 pytest tests/dashboard/test_browser.py -k pictures` takes them anew."""
    with tab(browser, server, viewport={"width": 1280, "height": 900}) as one:
        for name, route in PICTURES.items():
            one.open(route)
            one.page.wait_for_function("() => document.fonts.status === 'loaded'")
            one.page.wait_for_selector(".joblink, .gscroll")
            taken = one.page.screenshot()
            if os.environ.get("PHALANX_REWRITE"):
                small = Image.open(io.BytesIO(taken)).convert("RGB").quantize(256, dither=Image.Dither.NONE)
                small.save(DOCS / name, optimize=True)
            with Image.open(DOCS / name) as kept:
                assert kept.size == Image.open(io.BytesIO(taken)).size
