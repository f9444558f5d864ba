"""`phalanx logs`: the attempts that it prints, the format of lines, and the message for a job without output."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import pytest

from phalanx.cli.cluster.jobs.output import ContainerLog, Line, LogWishes
from phalanx.cli.commands.attend import logs
from phalanx.cli.commands.attend.logs import LineOptions
from phalanx.client.connection import ApiRefusal, ApiUnknown
from phalanx.errors import PhalanxError
from tests.cli.found_jobs import found_job


def log(pod: str = "p", label: str = "0", container: str = "main") -> ContainerLog:
    words: dict[str, Any] = dict.fromkeys(ContainerLog.__dataclass_fields__, "")
    return ContainerLog(**{**words, "namespace": "ns", "pod": pod, "uid": pod, "container": container, "label": label})


@pytest.mark.parametrize(
    ("spec", "single"),
    [
        ({}, True),
        ({"completions": 1, "parallelism": 1}, True),
        ({"parallelism": 2}, False),
        ({"completions": 2}, False),
    ],
)
def test_a_job_of_one_pod_is_single(spec: dict[str, int], single: bool) -> None:
    assert logs._is_single(found_job(**spec)) is single


def test_labels_tell_containers_apart_where_there_are_several() -> None:
    assert not logs._labelled([log(), log()])
    assert logs._labelled([log(), log(container="side")])


def test_the_last_attempt_of_each_pod_counts() -> None:
    old, other, new = log("p1"), log("q1", label="1"), log("p2")
    assert logs._latest([[old, other], [new]]) == [new, other]


def test_lines_with_labels_times_or_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    line: Line = ("2026-01-01T00:00:00Z", log(), "text")
    logs._writer(True, LineOptions(timestamps=True))(line)
    logs._writer(False, LineOptions())(line)
    logs._writer(True, LineOptions(json=True))(line)
    first, second, third = capsys.readouterr().out.splitlines()
    assert (first, second) == ("[0] 2026-01-01T00:00:00Z text", "text")
    assert json.loads(third)["label"] == "0"


def test_labels_have_colours_on_a_terminal_unless_they_are_unwanted(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(logs.sys.stdout, "isatty", lambda: True)
    for unwanted in ("", "1"):
        monkeypatch.setenv("NO_COLOR", unwanted)
        write = logs._writer(True, LineOptions())
        for label in ("0", "1", "0"):
            write(("", log(label=label), "t"))
    lines = capsys.readouterr().out.splitlines()
    assert lines[:3] == ["\x1b[36m[0] \x1b[0mt", "\x1b[33m[1] \x1b[0mt", "\x1b[36m[0] \x1b[0mt"]
    assert lines[3:] == ["[0] t", "[1] t", "[0] t"]


def test_a_time_that_cannot_be_read_is_refused() -> None:
    with pytest.raises(PhalanxError, match="--since"):
        LineOptions(since="whenever").wishes()
    assert LineOptions(tail=3).wishes() == LogWishes(tail=3, since="")


@pytest.mark.parametrize(
    ("state", "started"), [({"running": {}}, True), ({"terminated": {}}, True), ({"waiting": {}}, False), (None, False)]
)
def test_a_container_has_started_if_it_runs_or_ran(state: Any, started: bool) -> None:
    pod = {
        "status": {"containerStatuses": [{"name": "side", "state": {"running": {}}}, {"name": "main", "state": state}]}
    }
    assert logs._has_started(pod, "main") is started
    assert not logs._has_started({}, "main")


def told(monkeypatch: pytest.MonkeyPatch, part: str = "", *, previous: bool = False, over: bool = True) -> str:
    async def sources(*_: object) -> list[ContainerLog]:
        return [log(label=label) for label in ("10", "9", "driver")]

    monkeypatch.setattr(logs, "log_sources", sources)
    connection: Any = None
    return asyncio.run(logs._nothing(connection, replace(found_job(), part=part), previous, over))


def test_without_output_it_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    assert told(monkeypatch, "7") == "ns/train has no pod 7 with output. Pods with output: 9, 10, driver."
    assert told(monkeypatch, previous=True) == "ns/train has no earlier attempt whose output is kept."
    assert "is queued and has no output yet. `phalanx logs -f ns/train` waits" in told(monkeypatch, over=False)
    assert told(monkeypatch).startswith("the pods of ns/train were deleted with their output")


class Breaking:
    """A log whose connection breaks after some lines. A new connection begins at the requested time."""

    def __init__(self, lines: list[tuple[str, str]], breaks: list[int]) -> None:
        self.lines, self.breaks, self.asked = lines, breaks, list[LogWishes]()

    async def __call__(self, connection: Any, source: ContainerLog, wishes: LogWishes) -> AsyncIterator[Line]:
        self.asked.append(wishes)
        ends = self.breaks.pop(0) if self.breaks else None
        from_there = [line for line in self.lines if line[0] >= wishes.since]
        for at, (stamp, text) in enumerate(from_there):
            if at == ends:
                raise ApiUnknown("the connection broke")
            yield stamp, source, text


def copied(monkeypatch: pytest.MonkeyPatch, follow: Any) -> list[str]:
    monkeypatch.setattr(logs, "follow_lines", follow)
    monkeypatch.setattr(logs, "_AGAIN_S", 0.0)
    seen: list[str] = []
    connection: Any = None
    asyncio.run(logs._copy(connection, log(), LogWishes(tail=9), lambda line: seen.append(line[2])))
    return seen


def test_after_a_break_no_line_is_lost_or_shown_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = [("1", "a"), ("2", "b"), ("2", "c"), ("2", "d"), ("3", "e")]
    source = Breaking(lines, [3, 2, 3])
    assert copied(monkeypatch, source) == ["a", "b", "c", "d", "e"]
    assert [(one.since, one.tail) for one in source.asked] == [("", 9), ("2", None), ("2", None), ("2", None)]


def test_a_refusal_is_not_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    async def refuse(*_: object) -> AsyncIterator[Line]:
        raise ApiRefusal(404, "NotFound", "gone")
        yield ("", log(), "")

    with pytest.raises(ApiRefusal):
        copied(monkeypatch, refuse)
