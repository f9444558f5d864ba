"""A recording holds all that a scheduler was told and decided; replayed, it decides the same."""

from __future__ import annotations

import asyncio
import json
import os
import stat
from pathlib import Path

import pytest

from phalanx import loop
from phalanx.cli.commands.study.replay import replay
from phalanx.cli.files.recording import Recorder, require_recordable, steps
from phalanx.errors import PhalanxError
from phalanx.model.event import Event, Finished, NodeSeen, QueueSeen, Refused, Started, Submitted
from phalanx.model.job import Job, Role
from phalanx.model.node import Node
from phalanx.model.plan import Plan
from phalanx.model.pod import Shape
from phalanx.model.policy import Policy
from phalanx.model.queue import Queue
from phalanx.model.reason import Reason, ReasonCode
from phalanx.state.cluster import Cluster

BEGINNING: list[Event] = [
    NodeSeen(Node(name="a", allocatable=(("cpu", 2000), ("pods", 10)))),
    QueueSeen(Queue(name="default")),
]


def job(name: str, cpu: int) -> Job:
    role = Role(name="w", count=1, minimum=1, shape=Shape(requests=(("cpu", cpu),)))
    return Job(id=name, queue="default", roles=(role,))


class Script:
    """A world that returns its batches of events in order, and then ends."""

    def __init__(self, *batches: list[Event]) -> None:
        self.batches = list(batches)

    def events(self) -> list[Event]:
        if not self.batches:
            raise asyncio.CancelledError
        return self.batches.pop(0)

    def apply(self, plan: Plan) -> None:
        pass

    async def wait(self, timeout_s: float | None) -> None:
        pass


def record(file: Path, *batches: list[Event]) -> None:
    recorder = Recorder(Script(*batches), file, Policy(), lambda: 1000.0)
    with pytest.raises(asyncio.CancelledError):
        asyncio.run(loop.run(recorder, Cluster(), Policy(), recorder.clock))
    recorder.close()


@pytest.fixture
def recording(tmp_path: Path) -> Path:
    file = tmp_path / "monday.jsonl"
    record(file, [*BEGINNING, Submitted(job("one", 2000)), Submitted(job("two", 1000))])
    record(
        file,
        [*BEGINNING, Submitted(job("one", 2000))],
        [Started("one", 1), Finished("one"), Submitted(job("two", 1000))],
    )
    return file


def test_a_recording_replays_as_recorded_restarts_included(recording: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert replay(recording) == 0
    out, err = capsys.readouterr()
    assert "decided  start one#1 on a\n  decided  wait two: NoRoom: " in out
    assert out.count("start two#1 on a") == 1
    assert "3 steps, as recorded" in err


def test_a_step_holds_what_was_told_and_decided(recording: Path) -> None:
    first, second, third = steps(recording)
    assert first.events[-1] == Submitted(job("two", 1000))
    assert [each.begins for each in (first, second, third)] == [True, True, False]
    assert third.now_s == 1000.0
    assert third.actions is not None
    assert third.actions[0].job == "two"


def test_only_its_owner_may_read_it(recording: Path) -> None:
    assert stat.S_IMODE(recording.stat().st_mode) == 0o600


def test_another_decision_is_shown_and_fails(recording: Path, capsys: pytest.CaptureFixture[str]) -> None:
    recording.write_text(recording.read_text().replace(',"a",[]]', ',"b",[]]'))
    assert replay(recording) == 1
    out, err = capsys.readouterr()
    assert "  recorded start one#1 on b" in out
    assert "3 with another decision than recorded" in err


def test_one_job_can_be_followed(recording: Path, capsys: pytest.CaptureFixture[str]) -> None:
    replay(recording, job="two", json=True)
    shown = [json.loads(line)["step"] for line in capsys.readouterr().out.splitlines()]
    assert shown == [1, 3]


def test_a_job_that_no_step_is_about_is_said(recording: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert replay(recording, job="tow") == 0
    out, err = capsys.readouterr()
    assert not out
    assert "no shown step has an event or a decision about a job tow" in err


def test_a_start_that_came_to_nothing_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "day.jsonl"
    refused = Refused("one", 1, Reason(code=ReasonCode.BACKOFF, text="its start was taken back"), not_before_s=2000.0)
    record(file, [*BEGINNING, Submitted(job("one", 1000))], [refused])
    assert replay(file) == 0
    assert "told     Refused one\n" in capsys.readouterr().out


def test_a_last_line_cut_short_is_left_out(recording: Path) -> None:
    recording.write_text(recording.read_text()[:-20])
    assert [each.number for each in steps(recording)] == [1, 2]


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "is not a recording: its first line is not"),
        ('{"apiVersion": "v1"}\n', "is not a recording"),
        ('{"phalanx recording": 1}\n{"now_s": 1}\n', "line 2: this is not a step of a recording"),
        ('{"phalanx recording": 1}\n[]\n', "line 2: this is not a step"),
    ],
)
def test_what_is_no_recording_is_refused(tmp_path: Path, text: str, complaint: str) -> None:
    file = tmp_path / "x"
    file.write_text(text)
    with pytest.raises(PhalanxError, match=complaint):
        list(steps(file))


def test_what_cannot_be_read_is_said_once(tmp_path: Path) -> None:
    missing, packed = tmp_path / "missing.jsonl", tmp_path / "packed.jsonl"
    with pytest.raises(PhalanxError) as raised:
        replay(missing)
    assert str(raised.value) == f"{missing} cannot be read: No such file or directory"
    packed.write_bytes(b"\x1f\x8b\x08\x00\xff")
    with pytest.raises(PhalanxError, match=r"packed\.jsonl is not a recording"):
        replay(packed)


def test_a_file_that_is_something_else_is_not_written_to(tmp_path: Path) -> None:
    file = tmp_path / "notes.txt"
    file.write_text("dear diary\n")
    with pytest.raises(PhalanxError, match="is not a recording"):
        Recorder(Script(), file, Policy(), lambda: 0.0)
    assert file.read_text() == "dear diary\n"


def test_a_restart_goes_on_behind_what_a_crash_cut_short(recording: Path, capsys: pytest.CaptureFixture[str]) -> None:
    recording.write_text(recording.read_text()[:-20])
    record(recording, [*BEGINNING, Submitted(job("three", 1000))])
    assert replay(recording) == 0
    out, err = capsys.readouterr()
    assert "start three#1 on a" in out
    assert "3 steps, as recorded" in err


def test_a_full_disk_ends_the_recording_and_not_the_scheduling(tmp_path: Path) -> None:
    said: list[str] = []
    script = Script(BEGINNING, [Submitted(job("one", 1000))], [Submitted(job("two", 1000))])
    recorder = Recorder(script, tmp_path / "full.jsonl", Policy(), lambda: 1000.0, said.append)
    assert recorder._file is not None
    os.dup2(os.open("/dev/full", os.O_WRONLY), recorder._file)
    cluster = Cluster()
    with pytest.raises(asyncio.CancelledError):
        asyncio.run(loop.run(recorder, cluster, Policy(), recorder.clock))
    assert [record.phase for record in cluster.jobs.values()] == ["starting", "starting"]
    [text] = said
    assert "full.jsonl cannot be written any more (No space left on device), so the recording ends" in text


def test_a_file_that_cannot_be_made_is_said_before_anything_starts(tmp_path: Path) -> None:
    with pytest.raises(PhalanxError, match="cannot be written: No such file or directory"):
        require_recordable(tmp_path / "nowhere" / "x.jsonl", Policy())


def test_one_difference_is_one_though_others_follow_from_it(
    recording: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The cluster state continues from the recorded actions, so that the recorded events fit."""
    first, second, third, fourth = recording.read_text().splitlines(keepends=True)
    recording.write_text(first + second + third.replace('"placements":[[0,0,"a",[]]]', '"placements":[]') + fourth)
    assert replay(recording) == 1
    assert "1 with another decision than recorded" in capsys.readouterr().err


def test_what_cannot_have_been_names_its_step(recording: Path) -> None:
    """Of an answer to a third start of a job that was started once."""
    recording.write_text(
        recording.read_text().replace(
            '"is":"Started","job":"one","attempt":1', '"is":"Started","job":"one","attempt":3'
        )
    )
    with pytest.raises(PhalanxError, match="step 3 of the recording cannot follow the steps before it"):
        replay(recording)
