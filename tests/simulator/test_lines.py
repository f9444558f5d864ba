"""`simulator/readers/lines.py`: read the records of a trace file, and report errors with file, line and column."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from phalanx.simulator.readers import swf
from phalanx.simulator.readers.lines import OnError, TraceError, told
from tests.simulator.test_swf import GOOD, HEADER, log


@pytest.mark.parametrize(
    ("record", "complaint"),
    [
        ("1 10 5 60 4\n", "log.swf:3:12: 5 fields where a record has 18"),
        (GOOD.replace(" 60 ", " six "), "log.swf:3:8: run time: 'six' is not a number"),
        (GOOD.replace("1 10 ", "1 -10 ", 1), "log.swf:3:3: the submit time is -10"),
        (GOOD.replace(" 8 ", " 9999999999 "), "log.swf:3:19: 9999999999 processors are more than any machine has"),
        (GOOD.strip() + " 7\n", "log.swf:3:47: 19 fields where a record has 18"),
        (GOOD + GOOD, "log.swf:4:1: job number 1 was there before"),
        (GOOD.replace(" 60 ", " nan "), "log.swf:3:8: run time: 'nan' is not a number"),
        (GOOD.replace(" 60 ", " 1e999 "), "log.swf:3:8: run time: '1e999' is not a number"),
        (GOOD.replace(" 60 ", " 1e300 "), "log.swf:3:8: run time: more than 9000000000 s"),
        (GOOD.replace("1 10 ", f"1 {'9' * 400} ", 1), "log.swf:3:3: submit time: more than 9000000000 s"),
    ],
)
def test_where_it_is_wrong(tmp_path: Path, record: str, complaint: str) -> None:
    path = log(tmp_path, HEADER + record)
    with pytest.raises(TraceError) as raised:
        swf.read(path)
    assert str(raised.value).startswith(f"{tmp_path}/{complaint}")
    assert "--on-error skip" in str(raised.value)
    found = swf.read(path, on_error=OnError.SKIP)
    assert found.faults == (f"{tmp_path}/{complaint}",)


def test_many_faults_are_counted() -> None:
    assert told([f"f{index}" for index in range(13)])[-1] == "… and 3 more of that kind"


def test_a_file_that_is_cut_off_keeps_what_came_before(tmp_path: Path) -> None:
    whole = gzip.compress((HEADER + GOOD + GOOD.replace("1 10", "2 11", 1)).encode() + b"\n" * 100_000)
    path = tmp_path / "log.swf.gz"
    path.write_bytes(whole[:-20])
    with pytest.raises(TraceError, match="cut off or damaged here"):
        swf.read(path)
    found = swf.read(path, on_error=OnError.SKIP)
    assert "cut off or damaged here" in found.faults[0]


def test_a_pipe_is_no_trace() -> None:
    with pytest.raises(TraceError, match="put it into a file"):
        swf.read(Path("/dev/null"))


def test_no_such_file(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match="there is no such file"):
        swf.read(tmp_path / "nothing.swf")


@given(st.text(alphabet="0123456789 -.;:\nabc\x00é", max_size=300))
def test_whatever_is_in_it_it_is_read_or_the_place_is_said(tmp_path_factory: pytest.TempPathFactory, text: str) -> None:
    path = tmp_path_factory.mktemp("swf") / "log.swf"
    path.write_text(HEADER + text)
    for on_error in OnError:
        complaint = complaint_about(path, on_error)
        assert complaint is None or complaint.startswith(str(path))


def complaint_about(path: Path, on_error: OnError) -> str | None:
    try:
        swf.read(path, on_error=on_error)
    except TraceError as error:
        return str(error)
    return None
