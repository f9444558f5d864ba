"""Which logs are which attempt of a job, and a log that is followed through a broken connection."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from phalanx.cli.cluster.jobs.finding import FoundJob
from phalanx.cli.cluster.jobs.output import ContainerLog, Line, LogWishes, _is_of, attempts, read_lines
from phalanx.cli.commands.attend import logs
from phalanx.client.connection import ApiUnknown


def source(label: str, started_s: float, ended_s: float | None = None) -> ContainerLog:
    pod = f"train-{label}-{started_s:g}"
    return ContainerLog(
        namespace="default", pod=pod, uid=pod, container="main", label=label, started_s=started_s, ended_s=ended_s
    )


def labels(tries: list[list[ContainerLog]]) -> list[list[str]]:
    return [[one.pod.removeprefix("train-") for one in attempt] for attempt in tries]


def test_a_pod_with_an_index_that_was_there_is_of_the_next_attempt() -> None:
    pods = [source("0", 20.0), source("0", 1.0, 9.0), source("1", 1.0, 9.0), source("1", 21.0), source("2", 22.0)]
    assert labels(attempts(pods, single=False)) == [["0-1", "1-1", "2-22"], ["0-20", "1-21"]]


def test_each_pod_of_a_job_of_one_pod_is_an_attempt_whatever_its_name_is() -> None:
    pods = [source("abc", 1.0, 9.0), source("xyz", 10.0)]
    assert labels(attempts(pods, single=True)) == [["abc-1"], ["xyz-10"]]
    assert labels(attempts(pods, single=False)) == [["abc-1", "xyz-10"]]


def test_a_kept_pod_belongs_to_a_job_by_its_owner_or_its_labels() -> None:
    job = FoundJob(kind="job", namespace="default", name="train")
    item: dict[str, Any] = {"pod": "train-x", "owner": "", "owner_uid": "", "labels": {}}
    assert not _is_of(item, job)
    assert not _is_of(item | {"owner": "Job/train-2"}, job)
    assert _is_of(item | {"owner": "Job/train"}, job)
    assert _is_of(item | {"labels": {"phalanx.dev/job": "train"}}, job)
    assert _is_of(item | {"pod": "train"}, job)


class Server:
    """A server that answers with one list of lines after the other. `None` at the end breaks the connection."""

    def __init__(self, *answers: list[str | None]) -> None:
        self.answers, self.asked = list(answers), list[dict[str, str]]()

    @asynccontextmanager
    async def stream(self, path: str, params: dict[str, str]) -> AsyncIterator[AsyncIterator[bytes]]:
        self.asked.append(params)
        yield self._lines(self.answers.pop(0))

    async def _lines(self, lines: list[str | None]) -> AsyncIterator[bytes]:
        for line in lines:
            if line is None:
                raise ApiUnknown("the connection broke")
            yield line.encode()


async def test_lines_of_several_pods_are_merged_by_their_times() -> None:
    server: Any = Server(["2026-01-01T00:00:01Z a", "2026-01-01T00:00:04Z d"], ["2026-01-01T00:00:02Z b"], [])
    sources = [source("0", 1.0), source("1", 1.0), source("2", 1.0)]
    found = [(line[1].label, line[2]) async for line in read_lines(server, sources, LogWishes(tail=5))]
    assert found == [("0", "a"), ("1", "b"), ("0", "d")]
    assert {asked["tailLines"] for asked in server.asked} == {"5"}


async def test_a_log_that_is_followed_goes_on_after_a_broken_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    """Several lines have the same time: none is shown twice, and none is left out."""
    monkeypatch.setattr(logs, "_AGAIN_S", 0.0)
    one, two = "2026-01-01T00:00:01Z", "2026-01-01T00:00:02Z"
    server: Any = Server(
        [f"{one} a", f"{two} b", f"{two} c", None],
        [f"{two} b", f"{two} c", None],
        [f"{two} b", f"{two} c", f"{two} d", f"{two} e"],
    )
    written: list[Line] = []
    await logs._copy(server, source("0", 1.0), LogWishes(tail=3), written.append)
    assert [line[2] for line in written] == ["a", "b", "c", "d", "e"]
    assert [(asked.get("sinceTime"), asked.get("tailLines")) for asked in server.asked] == [
        (None, "3"),
        (two, None),
        (two, None),
    ]
