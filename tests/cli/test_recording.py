"""Recordings: whole lines, and files that are none."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from phalanx.cli.files import recording
from phalanx.cli.files.recording import FORMAT, append, lines, open_private, require_recordable, step_of, steps, whole
from phalanx.errors import PhalanxError
from phalanx.model.policy import Policy


def written(file: Path, *texts: str) -> Path:
    file.write_text("\n".join([json.dumps(FORMAT), *texts]))
    return file


def test_a_step_is_read_as_it_was_written(tmp_path: Path) -> None:
    file, policy = tmp_path / "r", Policy(default_queue="q")
    descriptor = open_private(file)
    append(descriptor, step_of(1.0, policy, (), None, begins=True))
    append(descriptor, step_of(2.0, None, (), (), begins=False))
    os.close(descriptor)
    first, second = steps(file)
    assert (first.number, first.now_s, first.begins, first.policy, first.actions) == (1, 1.0, True, policy, None)
    assert (second.policy, second.actions) == (policy, ()), "a step without a policy has that of the step before"
    assert file.stat().st_mode & 0o777 == 0o600


def test_a_line_that_was_cut_short_is_passed_over_and_removed(tmp_path: Path) -> None:
    file = written(tmp_path / "r", '{"a": 1}', '{"b"')
    assert [text for _, text in lines(file)] == ['{"a": 1}\n']
    os.close(open_private(file))
    assert file.read_text().endswith('{"a": 1}\n')


@pytest.mark.parametrize(
    ("content", "end"), [(b"", 0), (b"abc", 0), (b"a\nbc", 2), (b"a\nb\n", 4), (b"\n" + b"x" * 50, 1)]
)
def test_the_end_of_the_last_whole_line(
    content: bytes, end: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recording, "CHUNK", 3)
    (tmp_path / "f").write_bytes(content)
    descriptor = os.open(tmp_path / "f", os.O_RDONLY)
    assert whole(descriptor) == end
    os.close(descriptor)


@pytest.mark.parametrize("content", [b"notes of mine\n", b"{}\n", b"\xff\xfe\n"])
def test_a_file_that_is_no_recording_stays_as_it_is(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(content)
    with pytest.raises(PhalanxError, match="is not a recording"):
        open_private(tmp_path / "f")
    assert (tmp_path / "f").read_bytes() == content


@pytest.mark.parametrize("text", ['{"now_s": 1}', "[]", "nonsense", '{"now_s": "x", "begins": true, "events": []}'])
def test_a_step_that_cannot_be_read_is_told_with_its_line(text: str, tmp_path: Path) -> None:
    with pytest.raises(PhalanxError, match="line 2: this is not a step of a recording"):
        list(steps(written(tmp_path / "r", text, "")))


def test_what_cannot_be_recorded(tmp_path: Path) -> None:
    with pytest.raises(PhalanxError, match="cannot be written: "):
        open_private(tmp_path / "none" / "r")
    with pytest.raises(PhalanxError, match="a Python function cannot be recorded"):
        require_recordable(tmp_path / "r", Policy(priority_function=lambda job: 0.0))
    assert not (tmp_path / "r").exists()
    with pytest.raises(PhalanxError, match="cannot be read: No such file"):
        list(lines(tmp_path / "r"))
