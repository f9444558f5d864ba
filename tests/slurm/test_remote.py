"""Steps on the pods of an allocation: their output, and what a daemon is asked."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from phalanx.slurm.jobs.steps.pods import channel, remote
from phalanx.slurm.jobs.steps.pods.remote import ALL, RemoteStep, _State


def step(tasks: int = 12, **more: Any) -> RemoteStep:
    words: dict[str, Any] = {
        "name": "run", "indexes": [0], "tasks": [{task: {"RANK": str(task)} for task in range(tasks)}],
        "command": lambda task: ["echo", str(task)], "environment": {"A": "b"}, "directory": "/work",
        "streams": lambda task: (None, None, None),
    }  # fmt: skip
    return RemoteStep(**(words | more))


def test_output_is_passed_on_as_it_comes(capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    remote._write(step(), _State(), channel.STDOUT, 3, b"half a li")
    assert capsysbinary.readouterr().out == b"half a li"


def test_labels_are_before_whole_lines(capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    state = _State()
    labelled = step(label=True)
    remote._write(labelled, state, channel.STDOUT, 3, b"one\ntw")
    remote._write(labelled, state, channel.STDOUT, 11, b"x\n")
    remote._write(labelled, state, channel.STDERR, 3, b"err")
    remote._write(labelled, state, channel.STDOUT, 3, b"o\n")
    assert capsysbinary.readouterr() == (b" 3: one\n11: x\n 3: two\n", b"")
    remote._flush(labelled, state)
    assert capsysbinary.readouterr() == (b"", b" 3: err\n")


def test_words_of_the_daemon_have_no_label(capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    remote._write(step(label=True), _State(), channel.STDERR, ALL, b"srun: warning")
    assert capsysbinary.readouterr().err == b"srun: warning"


def test_a_daemon_is_asked_for_its_tasks() -> None:
    made = step(2)
    asked = remote._asked(made, made.tasks[0])
    assert asked["commands"] == {"0": ["echo", "0"], "1": ["echo", "1"]}
    assert asked["tasks"] == [[0, {"RANK": "0"}], [1, {"RANK": "1"}]]
    assert asked["pty"] is None
    assert len(remote._asked(step(terminal=True), made.tasks[0])["pty"]) == 2


def test_a_signal_reaches_all_that_still_listen() -> None:
    sent: list[bytes] = []

    def broken(kind: bytes, content: bytes) -> None:
        raise OSError("gone")

    links: Any = [SimpleNamespace(send=broken), SimpleNamespace(send=lambda kind, content: sent.append(content))]
    remote._signal(_State(links=links), 15)
    assert sent == [b"15"]
