"""A page that has an earlier state gets what changed since, or the whole."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
from msgspec.structs import replace

from phalanx.dashboard.rows import KEPT, Board, PageState
from tests.dashboard.served import SEG, TRAIN, later, shown, state, visitor


def applied(model: dict[str, Any], change: dict[str, Any]) -> dict[str, Any]:
    """The model with the change, as the page applies it."""
    model = {**model, "facts": change["facts"], "id": change["to"]}
    for name, section in change.items():
        if name in ("facts", "from", "to"):
            continue
        key = {"jobs": "id", "played": "job", "reasons": "key"}.get(name, "name")
        rows = {row[key]: row for row in model[name]}
        rows |= {row[key]: row for row in section["set"]}
        model[name] = [row for known, row in rows.items() if known not in section["gone"]]
    return model


def whole(board: Board) -> dict[str, Any]:
    return msgspec.json.decode(board.whole())


def read(event: bytes) -> dict[str, Any]:
    [data] = [line for line in event.split(b"\n") if line.startswith(b"data: ")]
    return msgspec.json.decode(data.removeprefix(b"data: "))


async def test_changes_lead_to_the_whole() -> None:
    states = [state(SEG), state(SEG, TRAIN), state(TRAIN), state(replace(TRAIN, state="complete")), state()]
    async with shown(states[0]) as page, visitor(page) as browser:
        model = whole(page.board)
        async with browser.get("/events", params={"since": model["id"]}) as stream:
            assert stream.headers["Content-Type"] == "text/event-stream"
            assert b"retry" in await stream.content.readuntil(b"\n\n")
            for each in states[1:]:
                page.publish(each)
                change = read(await stream.content.readuntil(b"\n\n"))
                assert change["from"] == model["id"]
                model = applied(model, change)
                assert sorted(model["jobs"], key=str) == sorted(whole(page.board)["jobs"], key=str)
                assert model["id"] == whole(page.board)["id"]


async def test_a_page_that_comes_back_gets_what_it_missed_and_nothing_twice() -> None:
    async with shown(state(SEG)) as page, visitor(page) as browser:
        known = page.board.id
        page.publish(state(SEG, TRAIN))
        page.publish(state(TRAIN))
        for headers, query in (({"Last-Event-ID": known}, {}), ({}, {"since": known})):
            async with browser.get("/events", headers=headers, params=query) as stream:
                await stream.content.readuntil(b"\n\n")
                told = [read(await stream.content.readuntil(b"\n\n")) for _ in range(2)]
            assert [list(change.get("jobs", {}).get("gone", ())) for change in told] == [[], ["vision/seg"]]


async def test_who_was_away_too_long_or_knows_another_server_gets_all_again() -> None:
    first = state(SEG)
    async with shown(first) as page, visitor(page) as browser:
        known = page.board.id
        for number in range(KEPT + 1):
            page.publish(later(first, at_s=first.facts.at_s + number + 1))
        for since in (known, "0-0", "nonsense", "", f"{page.board.id}9"):
            async with browser.get("/events", params={"since": since}) as stream:
                await stream.content.readuntil(b"\n\n")
                assert await stream.content.readuntil(b"\n\n") == b"event: reset\ndata: {}\n\n"


async def test_before_the_first_state_the_page_is_told_to_come_again() -> None:
    async with shown(None) as page, visitor(page) as browser:
        async with browser.get("/state") as answer:
            assert answer.status == 503
            assert "Retry-After" in answer.headers
        page.publish(state(SEG))
        async with browser.get("/state") as answer:
            assert answer.status == 200


async def test_a_change_has_only_rows_that_differ() -> None:
    board = Board()
    first = state(SEG, TRAIN)
    board.publish(first)
    known = board.id
    board.publish(
        PageState(
            **{**first.sections(), "facts": first.facts, "jobs": {**first.jobs, SEG.id: replace(SEG, priority=5)}}
        )
    )
    [(_, _, body)] = board.since(known) or ()
    change = msgspec.json.decode(body)
    assert set(change) == {"facts", "jobs"}
    assert [row["id"] for row in change["jobs"]["set"]] == ["vision/seg"]


async def test_who_waits_for_a_change_is_woken_by_the_next() -> None:
    board = Board()
    waiting = asyncio.create_task(board.changed())
    await asyncio.sleep(0)
    assert not waiting.done()
    board.publish(state(SEG))
    async with asyncio.timeout(60):
        await waiting
