"""A viewer who may list the jobs of one namespace sees amounts and times of the others, and no name in any answer."""

from __future__ import annotations

import msgspec

from phalanx.dashboard.redaction import Redaction
from phalanx.dashboard.rows import ReasonRow
from phalanx.model.reason import ReasonCode
from tests.dashboard.served import OF_VISION, SEG, TRAIN, later, shown, state, visitor

SECRETS = ("sofia", "train", "speech", "was here")


async def test_no_answer_has_a_name_of_others() -> None:
    first = state(SEG, TRAIN, head="speech/train")
    async with shown(first, OF_VISION) as page, visitor(page) as browser:
        async with browser.get("/state") as answer:
            whole = await answer.text()
        async with browser.get("/past", params={"from": "0", "to": "9"}) as answer:
            past = await answer.text()
        known = msgspec.json.decode(whole)["id"]
        page.publish(later(first, at_s=first.facts.at_s + 1, head="speech/train"))
        page.publish(state(SEG, msgspec.structs.replace(TRAIN, state="stopping", preempted_by="speech/more")))
        async with browser.get("/events", params={"since": known}) as stream:
            told = b"".join([await stream.content.readuntil(b"\n\n") for _ in range(3)]).decode()
    assert "stopping" in told
    for text in (whole, past, told):
        assert [secret for secret in SECRETS if secret in text] == []
    jobs = {job["id"]: job for job in msgspec.json.decode(whole)["jobs"]}
    assert jobs["vision/seg"]["user"] == "ivo"
    [other] = [job for name, job in jobs.items() if name.startswith("other/")]
    assert (other["units"], other["queue"], other["places"]) == (8, "default", [["gpu-1", 8]])


async def test_who_may_list_everything_reads_every_name() -> None:
    async with shown(state(SEG, TRAIN)) as page, visitor(page) as browser, browser.get("/state") as answer:
        assert {job["id"] for job in (await answer.json())["jobs"]} == {"vision/seg", "speech/train"}


def test_the_holders_of_a_reason_have_the_stand_ins_of_their_jobs() -> None:
    redaction = Redaction({"vision"}.__contains__, b"salt")
    seen = redaction.state(state(SEG, TRAIN))
    [reason] = seen.reasons.values()
    stand_in = redaction.name("speech/train")
    assert reason.numbers["holders"] == {stand_in: 8, "vision/seg": 4}
    assert stand_in in seen.jobs
    assert "whose" not in reason.numbers


def test_a_stand_in_holds_for_one_session() -> None:
    names = {Redaction({"vision"}.__contains__, salt).name("speech/train") for salt in (b"a", b"b", b"b")}
    assert len(names) == 2


def test_of_every_code_a_sentence_of_others_is_written_again() -> None:
    redaction = Redaction({"vision"}.__contains__, b"salt")
    for code in ReasonCode:
        row = ReasonRow(
            key="r", code=str(code), text="sofia's speech/train", numbers={"new-key": "sofia", "jobs": ["speech/train"]}
        )
        found = msgspec.json.encode(redaction.reason(row, own=False)).decode()
        assert [secret for secret in SECRETS if secret in found] == [], code
