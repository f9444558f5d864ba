"""YuniKorn's events and history: what follows from how a gang was told before and after, and its bounds."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import pytest

from phalanx.dialects.frame.dialect import Eviction, GangView
from phalanx.dialects.yunikorn import journal as journals
from phalanx.dialects.yunikorn.journal import MOST_RECORDS, ApplicationJournal
from phalanx.model.reason import Reason, ReasonCode
from tests.dialects.yunikorn.test_rest import REFUSED, X, pod, told

NOW_S = 600.0
DETAILS = {
    0: "",
    100: "request cancelled",
    101: "request allocated",
    200: "allocation",
    201: "request",
    202: "rejected",
    203: "new",
    204: "accepted",
    206: "running",
    208: "completed",
    303: "on node",
    405: "application",
    500: "cancelled",
    501: "preempted",
}
CHANGES = {1: "set", 2: "add", 3: "remove"}


def app(*phases: tuple[str, str], **more: Any) -> GangView:
    """An application of pods, each of a phase and on a node."""
    pods = tuple(pod(f"p{at}", "app", "1500m", node, phase=phase) for at, (phase, node) in enumerate(phases))
    return replace(told(pods[0]), id="lab/app", owners=pods, **more)


def batch(journal: ApplicationJournal, **query: str) -> Any:
    return journal.view(("v1", "events", "batch"), query, NOW_S)


def said(journal: ApplicationJournal, **query: str) -> list[str]:
    return [
        f"{CHANGES[one['eventChangeType']]} {DETAILS[one.get('eventChangeDetail', 0)]} {one['objectID']}".replace(
            "  ", " "
        )
        for one in batch(journal, **query)["EventRecords"]
    ]


WAITS, RUNS, DONE = ("Pending", ""), ("Running", "n1"), ("Succeeded", "n1")


def test_what_happens_to_an_application_is_said_in_order() -> None:
    journal, first, both, over = ApplicationJournal("one"), app(WAITS), app(RUNS, WAITS), app(DONE, DONE)
    journal.saw(None, first, NOW_S)
    assert said(journal) == ["add new app", f"add application {X}", "add request app", "set accepted app"]
    request = batch(journal)["EventRecords"][2]
    assert request == {
        "type": 2,
        "objectID": "app",
        "referenceID": "uid-p0",
        "timestampNano": 600 * 10**9,
        "eventChangeType": 2,
        "eventChangeDetail": 201,
        "resource": {"resources": {"vcore": {"value": 1500}, "memory": {"value": 2**30}, "pods": {"value": 1}}},
    }
    journal.saw(first, both, NOW_S)
    on_node = ["remove request allocated app", "add allocation app", "add on node n1"]
    assert said(journal, start="4") == [*on_node, "add request app", "set running app"]
    journal.saw(both, both, NOW_S)
    assert batch(journal)["HighestID"] == 8, "nothing changed"
    journal.saw(both, over, NOW_S)
    ended = ["remove cancelled app", "remove on node n1", "remove request cancelled app", "set completed app"]
    assert sorted(said(journal, start="9")) == sorted(ended)
    journal.saw(over, None, NOW_S)
    assert said(journal, start="13") == [f"remove application {X}", "remove app"]


def test_a_pod_that_gives_way_is_preempted_and_who_may_not_start_is_rejected() -> None:
    journal, runs = ApplicationJournal("one"), app(RUNS)
    journal.saw(None, runs, NOW_S)
    why = Reason(code=ReasonCode.PREEMPTED, text="it gave way")
    journal.saw(runs, app(("Failed", "n1"), evicted=Eviction(reason=why, preempted=True)), NOW_S)
    assert "remove preempted app" in said(journal)
    journal.saw(None, replace(told(pod("bad", "no", "1")), reason=REFUSED), NOW_S)
    assert said(journal)[-1] == "set rejected no"


def test_batches_are_counted_from_their_first_id_and_old_records_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journals, "MOST_RECORDS", 10)
    journal = ApplicationJournal("one")
    assert batch(journal) == {
        "InstanceUUID": "one",
        "LowestID": 0,
        "HighestID": 0,
        "EventRecords": [],
    }
    for _ in range(5):
        journal.saw(None, app(WAITS), NOW_S)
    found = batch(journal, start="12", count="3")
    assert (found["LowestID"], found["HighestID"], len(found["EventRecords"])) == (10, 19, 3)
    assert [len(batch(journal, start=start)["EventRecords"]) for start in ("10", "19", "20", "9")] == [10, 1, 0, 0]
    assert found["InstanceUUID"] == batch(journal)["InstanceUUID"] != batch(ApplicationJournal("two"))["InstanceUUID"]
    assert MOST_RECORDS == 10_000


@pytest.mark.parametrize(("name", "text"), [("start", "-1"), ("count", "0"), ("count", "x"), ("start", "9" * 40)])
def test_a_number_that_is_none_is_refused(name: str, text: str) -> None:
    found = batch(ApplicationJournal("one"), **{name: text})
    assert found["status_code"] == 400
    assert name in found["message"]


def test_each_minute_of_a_day_has_its_figures() -> None:
    journal = ApplicationJournal("one")
    journal.saw(None, app(RUNS, RUNS), 600.0)
    journal.saw(None, replace(told(pod("other", "b", "1", "n1", phase="Running")), id="lab/b"), 690.0)

    def history(what: str, now_s: float) -> Any:
        return journal.view(("v1", "history", what), {}, now_s)

    assert history("apps", 659.0) == [{"timestamp": 660 * 10**9, "totalApplications": "1"}], "690 was seen already"
    journal.saw(app(RUNS, RUNS), None, 725.0)
    found = history("containers", 781.0)
    assert [(one["timestamp"] // 10**9, one["totalContainers"]) for one in found] == [
        (660, "2"),
        (720, "3"),
        (780, "1"),
    ]
    found = history("apps", 780.0 + 10 * 24 * 3600)
    assert (len(found), found[-1]["timestamp"] // 10**9) == (1440, 780 + 10 * 24 * 3600)
    assert journal.view(("v1", "clusters"), {}, NOW_S) is None


STREAM = ("v1", "events", "stream")


def followed(journal: ApplicationJournal, **query: str) -> Iterator[Sequence[Any]]:
    found = journal.stream(STREAM, query)
    assert found is not None
    return found


def test_a_stream_says_what_was_and_then_what_happens() -> None:
    journal = ApplicationJournal("one")
    journal.saw(None, app(WAITS), NOW_S)
    lines, news = followed(journal, count="2"), followed(journal)
    assert next(lines) == next(news) == [{"InstanceUUID": "one"}]
    assert next(lines) == batch(journal, start="2")["EventRecords"]
    assert next(lines) == next(news) == []
    journal.saw(app(WAITS), app(RUNS), NOW_S)
    assert next(lines) == next(news) == batch(journal, start="4")["EventRecords"]
    assert next(lines) == next(news) == []


def test_a_reader_who_is_too_slow_is_told_so_and_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journals, "MOST_RECORDS", 10)
    journal = ApplicationJournal("one")
    slow, quick = followed(journal), followed(journal)
    next(quick)
    for _ in range(5):
        journal.saw(None, app(WAITS), NOW_S)
        assert len(next(quick)) == 4
    assert next(slow) == [{"InstanceUUID": "one"}]
    [last] = next(slow)
    assert "10 records were dropped" in last["message"]
    assert list(slow) == []


def test_a_stream_of_a_number_that_is_none_is_refused() -> None:
    journal = ApplicationJournal("one")
    assert journal.stream(STREAM, {"count": "-1"}) is None
    assert journal.view(STREAM, {"count": "-1"}, NOW_S)["status_code"] == 400  # type: ignore[call-overload, index]  # a refusal is an object
    assert journal.stream(("v1", "events", "batch"), {}) is None
