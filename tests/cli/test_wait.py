"""`phalanx wait`: its time limit, its record, and when it ends."""

from __future__ import annotations

import asyncio
from types import TracebackType
from typing import Any, Self

import pytest

from phalanx.cli.cluster.jobs.standing import Standing
from phalanx.cli.commands.attend import wait
from phalanx.errors import PhalanxError
from tests.cli.found_jobs import found_job


@pytest.mark.parametrize(("text", "length_s"), [("", None), ("90s", 90.0), ("2h", 7200.0)])
def test_lengths_of_time(text: str, length_s: float | None) -> None:
    assert wait._length_s(text) == length_s


def test_what_is_no_length_of_time() -> None:
    with pytest.raises(PhalanxError, match="--timeout 'soon': write for example 90s"):
        wait._length_s("soon")


def test_a_job_that_is_not_over_has_no_exit_code_in_its_record() -> None:
    assert wait._record(found_job(), Standing(state="running")) == {
        "job": "ns/train",
        "state": "running",
        "exit_code": None,
        "why": "",
    }


class Course:
    """A job whose standing changes with each look."""

    def __init__(self, *standings: Standing) -> None:
        self.left = [*standings]

    def __call__(self, connection: Any, job: Any) -> Course:
        return self

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        pass

    @property
    def standing(self) -> Standing:
        return self.left[0]

    async def change(self) -> None:
        self.left.pop(0)


STUCK, RUNS, ENDS = (
    Standing(state="stuck", why="ErrImagePull"),
    Standing(state="running"),
    Standing(state="failed", exit_code=3),
)


@pytest.mark.parametrize(("running", "end"), [(True, RUNS), (False, ENDS)])
def test_it_ends_when_the_job_runs_or_is_over(
    running: bool, end: Standing, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(wait, "Followed", Course(Standing(state="queued"), STUCK, STUCK, RUNS, ENDS))
    connection: Any = None
    assert asyncio.run(wait._end(connection, found_job(), running)) == end
    told = "phalanx: job ns/train is stuck: ErrImagePull. The wait goes on.\n"
    assert capsys.readouterr().err == told, "the cause is told once"
