"""The rights to use the page's server, and the headers of every answer."""

from __future__ import annotations

import asyncio

import pytest

from tests.dashboard.served import OF_VISION, SEG, TRAIN, Recorded, doorkeeper, shown, state, visitor

ROUTES = (
    "/",
    "/state",
    "/events",
    "/past?from=0&to=9",
    "/history?job=speech/train",
    "/output?job=speech/train",
    "/index.html",
    "/js/main.js",
)


async def test_without_a_session_nothing_is_shown() -> None:
    async with shown(state(SEG)) as page, visitor(page, enters=False) as stranger:
        for path in ROUTES:
            async with stranger.get(path) as answer:
                assert answer.status == 401, path
                assert "seg" not in await answer.text()
        origin = {"Origin": f"http://127.0.0.1:{doorkeeper(page).port}"}
        async with stranger.post("/whatif", json={"job": "vision/seg"}, headers=origin) as answer:
            assert answer.status == 401


async def test_the_link_opens_one_session() -> None:
    async with shown(state(SEG)) as page, visitor(page) as first, visitor(page, enters=False) as thief:
        link = doorkeeper(page).link.partition(f":{doorkeeper(page).port}")[2]
        async with thief.get(link, allow_redirects=False) as answer:
            assert answer.status == 403
            assert "already been used" in await answer.text()
            assert not answer.cookies
        async with thief.get("/state") as answer:
            assert answer.status == 401
        async with first.get("/state") as answer:
            assert answer.status == 200


async def test_a_guessed_word_is_refused_and_the_true_one_still_works() -> None:
    async with shown(state(SEG)) as page, visitor(page, enters=False) as guesser:
        for word in ("", "x", "\u00e9", doorkeeper(page).link.partition("word=")[2][:-1]):
            async with guesser.get("/open", params={"word": word}) as answer:
                assert answer.status == 403
        async with visitor(page) as owner, owner.get("/state") as answer:
            assert answer.status == 200


async def test_the_cookie_is_out_of_reach_of_scripts_and_other_sites() -> None:
    async with shown(state(SEG)) as page, visitor(page, enters=False) as browser:
        link = doorkeeper(page).link.partition(f":{doorkeeper(page).port}")[2]
        async with browser.get(link, allow_redirects=False) as answer:
            said = answer.headers["Set-Cookie"]
            assert "HttpOnly" in said
            assert "SameSite=Strict" in said


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1", "evil.example:80", ""])
async def test_another_host_name_is_refused(host: str) -> None:
    """A name of an attacker's that points at 127.0.0.1 is not ours, though the browser connects."""
    headers = {"Host": host}
    async with shown(state(SEG)) as page, visitor(page) as browser, browser.get("/state", headers=headers) as answer:
        assert answer.status == 403
        assert "seg" not in await answer.text()


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "http://evil.example"},
        {"Origin": "null"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
    ],
)
async def test_a_request_of_another_site_is_refused(headers: dict[str, str]) -> None:
    async with shown(state(SEG)) as page, visitor(page) as browser:
        async with browser.get("/state", headers=headers) as answer:
            assert answer.status == 403
        async with browser.post("/whatif", json={"job": "vision/seg"}, headers=headers) as answer:
            assert answer.status == 403
        assert isinstance(page.source, Recorded)
        assert page.source.asked == 0


async def test_a_question_must_name_its_origin() -> None:
    async with shown(state(SEG)) as page, visitor(page) as browser:
        async with browser.post("/whatif", json={"job": "vision/seg"}) as answer:
            assert answer.status == 403
        own = {"Origin": f"http://127.0.0.1:{doorkeeper(page).port}"}
        async with browser.post("/whatif", json={"job": "vision/seg"}, headers=own) as answer:
            assert answer.status == 200


async def test_every_answer_has_the_content_security_policy() -> None:
    async with shown(state(SEG)) as page, visitor(page) as browser, visitor(page, enters=False) as stranger:
        for who in (browser, stranger):
            for path in ("/", "/state", "/open", "/nothing.js", "/events"):
                async with who.get(path) as answer:
                    policy = answer.headers["Content-Security-Policy"]
                    assert "default-src 'none'" in policy, path
                    assert "unsafe" not in policy
                    assert answer.headers["X-Content-Type-Options"] == "nosniff"


@pytest.mark.parametrize("path", ["/../access.py", "/%2e%2e/access.py", "/js/../../access.py", "/js//main.js", "/js"])
async def test_only_files_of_the_page_are_served(path: str) -> None:
    async with shown(state(SEG)) as page, visitor(page) as browser:
        from yarl import URL

        address = URL(f"http://127.0.0.1:{doorkeeper(page).port}{path}", encoded=True)
        async with browser.get(address) as answer:
            assert answer.status == 404, await answer.text()


async def test_a_session_follows_a_bounded_number_of_streams() -> None:
    async with shown(state(SEG)) as page, visitor(page) as browser:
        streams = [await browser.get("/events", params={"since": page.board.id}) for _ in range(16)]
        async with browser.get("/events") as answer:
            assert answer.status == 429
        for stream in streams:
            stream.close()
        async with asyncio.timeout(60):
            while page.door.sessions[0].streams:  # noqa: ASYNC110 (the server notices in its own time)
                await asyncio.sleep(0.01)


async def test_a_body_is_bounded() -> None:
    async with shown(state(SEG)) as page, visitor(page) as browser:
        own = {"Origin": f"http://127.0.0.1:{doorkeeper(page).port}"}
        async with browser.post("/whatif", json={"job": "x" * 20_000}, headers=own) as answer:
            assert answer.status == 413
        for body in (b"", b"[]", b'{"job": 1}', b'{"job": "a/b", "more": 1}', b"\xff"):
            async with browser.post("/whatif", data=body, headers=own) as answer:
                assert answer.status == 400, body


@pytest.mark.parametrize("since", ["yesterday", "2026-06-16T14:00:00Z&follow=true", "2026-06-16"])
async def test_a_time_that_is_none_is_refused(since: str) -> None:
    asked = {"job": "speech/train", "since": since}
    async with shown(state(TRAIN)) as page, visitor(page) as browser, browser.get("/output", params=asked) as answer:
        assert answer.status == 400


async def test_one_question_at_a_time_and_its_answer_is_kept() -> None:
    async with shown(state(SEG, TRAIN)) as page, visitor(page) as browser:
        source, own = page.source, {"Origin": f"http://127.0.0.1:{doorkeeper(page).port}"}
        assert isinstance(source, Recorded)
        source.hold.clear()
        first = asyncio.create_task(browser.post("/whatif", json={"job": "vision/seg"}, headers=own))
        async with asyncio.timeout(60):
            while not source.asked:  # noqa: ASYNC110 (until the server has it)
                await asyncio.sleep(0.01)
        async with browser.post("/whatif", json={"job": "vision/seg", "change": "nodes"}, headers=own) as answer:
            assert answer.status == 429
        source.hold.set()
        assert (await (await first).json())["victims"] == ["speech/train"]
        async with browser.post("/whatif", json={"job": "vision/seg"}, headers=own) as answer:
            assert answer.status == 200
        assert source.asked == 1


async def test_a_viewer_of_one_namespace_asks_about_his_own_jobs_only() -> None:
    async with shown(state(SEG, TRAIN), OF_VISION) as page, visitor(page) as browser:
        own = {"Origin": f"http://127.0.0.1:{doorkeeper(page).port}"}
        async with browser.post("/whatif", json={"job": "speech/train"}, headers=own) as answer:
            assert answer.status == 404
        async with browser.post("/whatif", json={"job": "vision/seg"}, headers=own) as answer:
            [victim] = (await answer.json())["victims"]
        for route, job, status in (
            ("/history", "speech/train", 404),
            ("/history", "vision/seg", 200),
            ("/use", "speech/train", 404),
            ("/use", "vision/seg", 200),
            ("/output", "speech/train", 404),
            ("/output", "vision/seg", 200),
        ):
            async with browser.get(route, params={"job": job}) as answer:
                assert answer.status == status
                assert "NoRoom" not in await answer.text()
                assert "was here" not in await answer.text()
        assert victim.startswith("other/job-")


async def test_an_action_names_its_origin_and_is_one_of_the_known_ones() -> None:
    async with shown(state(SEG, TRAIN), OF_VISION) as page, visitor(page) as browser:
        own = {"Origin": f"http://127.0.0.1:{doorkeeper(page).port}"}
        order = {"job": "vision/seg", "action": "hold"}
        for headers in ({}, {"Origin": "http://evil.example"}, {**own, "Sec-Fetch-Site": "cross-site"}):
            async with browser.post("/act", json=order, headers=headers) as answer:
                assert answer.status == 403
        for wrong in (
            {**order, "action": "delete"},
            {**order, "value": 1e9},
            {**order, "more": 1},
            {"job": "vision/seg"},
        ):
            async with browser.post("/act", json=wrong, headers=own) as answer:
                assert answer.status == 400, wrong
        async with browser.post("/act", json={**order, "job": "speech/train"}, headers=own) as answer:
            assert answer.status == 404
        async with browser.post("/act", json={**order, "job": "vision/gone"}, headers=own) as answer:
            assert (answer.status, await answer.text()) == (409, "there is no job vision/gone\n")
        assert isinstance(page.source, Recorded)
        assert page.source.acted == [("vision/gone", "hold", 0)]


async def test_a_page_that_only_reads_changes_nothing() -> None:
    async with shown(state(SEG), acts=False) as page, visitor(page) as browser:
        own = {"Origin": f"http://127.0.0.1:{doorkeeper(page).port}"}
        async with browser.post("/act", json={"job": "vision/seg", "action": "cancel"}, headers=own) as answer:
            assert (answer.status, "--read-only" in await answer.text()) == (403, True)
        async with browser.get("/me") as answer:
            assert (await answer.json())["acts"] is False
        assert isinstance(page.source, Recorded)
        assert page.source.acted == []
