"""The page in Chromium, against those who should not see it: other sites, a stolen link, viewers of one namespace, and
names that are code."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
from msgspec.structs import replace

from phalanx.dashboard.access import Viewer
from phalanx.dashboard.rows import JobRow, PageState
from phalanx.dashboard.serving import Page, served_files, serving
from phalanx.dashboard.sign_in import Credential, SignIn, Token
from tests.dashboard.browsed import AXE, SHOTS, Server, chromium, needs_browser, served, tab, watched

pytestmark = [pytest.mark.slow, needs_browser]

ROUTES = ("#/now", "#/jobs", "#/time", "#/shares")


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with served() as found:
        yield found


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with chromium() as found:
        yield found


def test_the_link_opens_the_page_once(browser: Any, server: Server) -> None:
    link = server.door.link
    with tab(browser, server, None) as owner, tab(browser, server, None) as thief:
        owner.page.goto(link)
        owner.page.wait_for_selector("main")
        assert "word" not in owner.page.url
        thief.page.goto(link)
        assert "This link has already been used" in thief.text
        thief.page.goto(server.address)
        assert "Open this page with its link" in thief.text
        owner.page.reload()
        owner.page.wait_for_selector("main")
        thief.wrong.clear()  # the browser says that it was refused


def test_in_a_cluster_a_viewer_signs_in_and_out(browser: Any, server: Server) -> None:
    viewer = Viewer(name="ivo", agent=server.source)

    async def admit(credential: Credential) -> Viewer | None:
        return viewer if credential == Token("ivos-token") else None

    door = SignIn(admit, server.loop.time, namespaces=lambda: ("vision",))
    page = Page(server.source, door, served_files(), server.page.board, server.page.state)
    serve = serving(page, 0)
    address = f"http://127.0.0.1:{server.do(serve.__aenter__())}"
    with tab(browser, server, None) as one:
        one.page.goto(address)
        one.page.evaluate(AXE.read_text())
        assert one.page.evaluate("axe.run().then((found) => found.violations.map((each) => each.id))") == []
        one.page.screenshot(path=SHOTS / "sign-in.png")
        one.wrong.clear()  # the browser says that the answer was 401
        one.page.fill("input", "another-token")
        one.page.keyboard.press("Enter")
        one.page.wait_for_selector("[role=alert] >> text=does not know this token")
        one.wrong.clear()
        one.page.fill("input", "ivos-token")
        one.page.keyboard.press("Enter")
        one.page.wait_for_selector("main#main")
        assert "ivos-token" not in one.page.content() + one.page.url
        one.page.click("[aria-label='Sign out']")
        one.page.wait_for_selector("text=Sign in to Phalanx")
        one.wrong.clear()
    server.do(serve.__aexit__(None, None, None))


ATTEMPTS = """async (address) => {
    const whatif = { method: "POST", mode: "no-cors", body: '{"job":"language/data-mix-9"}' }, found = [];
    const act = { method: "POST", mode: "no-cors", body: '{"job":"language/data-mix-9","action":"cancel"}' };
    const tries = [["/state", {}], ["/state", { mode: "no-cors" }], ["/whatif", whatif], ["/act", act]];
    for (const [path, options] of tries) {
        try {
            found.push(await (await fetch(address + path, { credentials: "include", ...options })).text());
        } catch (error) {
            found.push("");
        }
    }
    document.getElementById("form").submit();
    return found;
}"""


def test_another_site_gets_nothing_and_changes_nothing(browser: Any, server: Server) -> None:
    """A user with a session visits a hostile page, which tries a fetch, a form, a frame and an image."""
    with tab(browser, server) as one:
        one.open()
        source = server.source
        asked = source.asked
        source.acted.clear()
        evil = watched(one.page.context, server)
        body = f"""<iframe id=frame src="{server.address}/"></iframe><img src="{server.address}/icon.svg">
            <form id=form method=post target=frame enctype=text/plain action="{server.address}/whatif">
            <input name='{{"job":"language/data-mix-9","change":"' value='"}}'></form>"""
        answer = {"content_type": "text/html", "body": f"<!doctype html><title>evil</title>{body}"}
        evil.page.route("http://evil.example/", lambda route: route.fulfill(**answer))
        statuses: dict[str, int] = {}
        evil.page.on("response", lambda got: statuses.setdefault(got.url, got.status))
        evil.page.goto("http://evil.example/")
        tried = evil.page.evaluate(ATTEMPTS, server.address)
        evil.page.wait_for_timeout(300)
        assert tried == ["", "", "", ""]
        assert (source.asked, source.acted) == (asked, [])
        assert {status for url, status in statuses.items() if url.startswith(server.address)} <= {0, 401, 403}
        one.route("#/jobs")
        one.page.wait_for_selector(".gr")


def names_in(text: str, names: set[str]) -> list[str]:
    """Those of the names that stand in the text, as words."""
    words = set(re.findall(r"[\w-]+", text))
    return sorted(names & words)


def test_who_may_list_one_namespace_sees_amounts_and_no_names(browser: Any, server: Server) -> None:
    """Also not in any answer: those of the network are read whole."""
    state = server.at.state
    server.show(state)
    own = {name for name in state.jobs if name.startswith("vision/")}
    other = {name.partition("/")[2] for name in state.jobs if name not in own}
    users = {job.user for name, job in state.jobs.items() if name not in own} - {state.jobs[name].user for name in own}
    with tab(browser, server, Viewer(name="hana", namespaces=frozenset({"vision"}))) as one:
        answers: list[Any] = []
        one.page.on("response", lambda got: answers.append(got))
        one.open()
        for route in ROUTES:
            one.route(route)
            one.page.wait_for_selector("main h1", state="attached")
            shown = one.page.content()
            assert names_in(shown, other | users) == []
        assert "You may list the jobs of namespace vision only" in one.text
        one.route("#/jobs?q=queue:search")
        one.page.wait_for_selector(".gr >> text=job-")
        one.page.wait_for_function(
            "() => performance.getEntriesByType('resource').some((one) => one.name.includes('past'))"
        )
        bodies = [got.text() for got in answers if "/state" in got.url or "/past" in got.url]
        assert len(bodies) >= 2
        assert [name for body in bodies for name in names_in(body, other | users)] == []
        one.route("#/job/language/data-mix-9")
        one.page.wait_for_selector("text=No such job")


HOSTILE = (
    "<script>document.title='gone'</script>",
    "<img src=x onerror=alert(1)>",
    "\u202egnorw-si-siht",
    "x" * 253,
    "%3Cb%3E%",
    "a'b\"c`d${1}",
    "__proto__",
    "../../state",
)


@pytest.mark.parametrize("width", [390, 1440])
def test_names_that_are_code_are_shown_as_text(browser: Any, server: Server, width: int) -> None:
    state = server.at.state
    jobs = {
        f"vision/{name}": JobRow(
            id=f"vision/{name}",
            user=name,
            queue="vision",
            array=name,
            reason="hostile",
            units=1,
            pods=1,
            submitted_s=state.facts.at_s,
            since_s=state.facts.at_s,
        )
        for name in HOSTILE
    }
    reason = replace(
        state.reasons["room"],
        key="hostile",
        text=f"{HOSTILE[1]} holds it",
        numbers={"holders": {f"vision/{HOSTILE[1]}": 1}},
    )
    server.show(
        PageState(
            **{**state.sections(), "facts": state.facts, "jobs": jobs, "reasons": {**state.reasons, "hostile": reason}}
        )  # type: ignore[arg-type]  # the other sections
    )
    with tab(browser, server, viewport={"width": width, "height": 844}) as one:
        one.page.on("dialog", lambda dialog: one.wrong.append(f"a dialog: {dialog.message}"))
        for route in ROUTES:
            one.open(route)
            assert one.page.evaluate("document.documentElement.scrollWidth") <= width, route
        one.route("#/jobs")
        one.page.wait_for_function("(n) => document.querySelectorAll('.gr').length === n", arg=len(HOSTILE))
        text = one.page.text_content(".gbody")
        assert [name for name in HOSTILE if name not in text] == []
        for at in range(len(HOSTILE)):
            one.route("#/jobs")
            one.page.click(f".gr >> nth={at} >> a")
            one.page.wait_for_selector(".jobhead h1")
            assert one.page.text_content(".jobhead h1") in HOSTILE
            assert one.page.evaluate("document.documentElement.scrollWidth") <= width
        assert one.page.evaluate("document.title") != "gone"
    server.show(state)
