"""The Standard Workload Format: the meaning of its fields, and errors of invalid files."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from phalanx.simulator.readers import swf
from phalanx.simulator.readers.lines import TraceError
from tests.simulator.builders import KTH

HEADER = "; MaxProcs: 100\n;Note: a test\n"
GOOD = "1 10 5 60 4 -1 -1 8 120 -1 1 3 2 -1 7 1 -1 -1\n"


def log(tmp_path: Path, text: str, name: str = "log.swf") -> Path:
    path = tmp_path / name
    path.write_text(text)
    return path


def test_fields(tmp_path: Path) -> None:
    found = swf.read(log(tmp_path, HEADER + GOOD))
    (task,) = found.tasks
    assert (task.job.id, task.job.submitted_s, task.run_s, task.waited_s) == ("1", 10, 60, 5)
    assert dict(task.job.roles[0].shape.requests) == {"cpu": 8000}
    assert (task.job.limit_s, task.job.user, task.job.group, task.queue) == (120, "3", "2", "7")
    assert dict(found.nodes[0].allocatable) == {"cpu": 100_000, "pods": 100}


def test_unknown_is_minus_one(tmp_path: Path) -> None:
    (task,) = swf.read(log(tmp_path, HEADER + "1 10 -1 60 4 -1 -1 -1 -1 -1 -1 -1 -1 -1 -1 6 -1 -1\n")).tasks
    assert dict(task.job.roles[0].shape.requests) == {"cpu": 4000}  # allocated, since requested is not known
    assert (task.job.limit_s, task.waited_s, task.job.user, task.queue) == (None, None, "", "6")


def test_what_never_ran_is_left_out_and_counted(tmp_path: Path) -> None:
    records = (
        "2 11 0 0 4 -1 -1 4 60 -1 5 1 1 -1 1 1 -1 -1\n"
        "3 12 0 -1 4 -1 -1 4 60 -1 5 1 1 -1 1 1 -1 -1\n"
        "4 13 0 60 -1 -1 -1 0 60 -1 1 1 1 -1 1 1 -1 -1\n"
        "1 10 0 30 4 -1 -1 4 60 -1 2 1 1 -1 1 1 -1 -1\n"
    )
    found = swf.read(log(tmp_path, HEADER + GOOD + records))
    assert [task.job.id for task in found.tasks] == ["1"]
    assert dict(found.dropped) == {
        "jobs that never ran (run time 0 or unknown)": 2,
        "jobs without processors": 1,
        "parts of a job that is recorded as a whole (status 2 to 4)": 1,
    }


def test_order_is_by_submission_then_as_in_the_file(tmp_path: Path) -> None:
    lines = [GOOD.replace("1 10 ", f"{job} {submit} ", 1) for job, submit in ((5, 30), (3, 10), (9, 10), (1, 20))]
    found = swf.read(log(tmp_path, HEADER + "".join(lines)))
    assert [task.job.id for task in found.tasks] == ["3", "9", "1", "5"]


def test_a_log_in_the_order_of_ends_is_brought_back_into_that_of_submissions(tmp_path: Path) -> None:
    """Jobs of the same moment are numbered in the order in which they came."""
    lines = [GOOD.replace("1 10 ", f"{job} {submit} ", 1) for job, submit in ((9, 10), (10, 10), (3, 10), (2, 5))]
    assert [task.job.id for task in swf.read(log(tmp_path, HEADER + "".join(lines))).tasks] == ["2", "3", "9", "10"]
    in_turn = [GOOD.replace("1 10 ", f"{job} {submit} ", 1) for job, submit in ((9, 10), (3, 10), (2, 12))]
    assert [task.job.id for task in swf.read(log(tmp_path, HEADER + "".join(in_turn))).tasks] == ["9", "3", "2"]


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"])
@pytest.mark.parametrize("end", [b"\n", b"\r\n"])
@pytest.mark.parametrize("name", ["log.swf", "log.swf.gz"])
def test_however_it_is_written_it_is_read(tmp_path: Path, name: str, packed: bool, mark: bytes, end: bytes) -> None:
    """A file with a byte order mark, with other line ends, compressed or not, under any name."""
    text = mark + (HEADER + GOOD).encode().replace(b"\n", end)
    path = tmp_path / name
    path.write_bytes(gzip.compress(text) if packed else text)
    found = swf.read(path)
    assert [task.job.id for task in found.tasks] == ["1"]
    assert dict(found.nodes[0].allocatable)["cpu"] == 100_000


def test_the_machine_s_size(tmp_path: Path) -> None:
    assert dict(swf.read(log(tmp_path, "; MaxNodes: 7\n" + GOOD)).nodes[0].allocatable)["cpu"] == 7000
    assert dict(swf.read(log(tmp_path, HEADER + GOOD), size=9).nodes[0].allocatable)["cpu"] == 9000
    with pytest.raises(TraceError, match="neither MaxProcs nor MaxNodes"):
        swf.read(log(tmp_path, "; MaxProcs: many\n" + GOOD))


def test_predecessors_on_request(tmp_path: Path) -> None:
    second = GOOD.replace("1 10", "2 11", 1).replace("-1 -1\n", "1 30\n")
    path = log(tmp_path, HEADER + GOOD + second)
    assert [task.follows for task in swf.read(path).tasks] == ["", ""]
    assert [(task.follows, task.think_s) for task in swf.read(path, follow=True).tasks] == [("", None), ("1", 30)]


def test_nobody_follows_a_job_that_is_not_played_or_came_later(tmp_path: Path) -> None:
    never_ran = GOOD.replace(" 60 ", " 0 ")
    lines = [
        GOOD.replace("1 10", f"{number} 11", 1).replace("-1 -1\n", f"{before} 5\n")
        for number, before in ((2, 1), (3, 99), (4, 4), (5, 6), (6, 2))
    ]
    found = swf.read(log(tmp_path, HEADER + never_ran + "".join(lines)), follow=True)
    assert [task.follows for task in found.tasks] == ["", "", "", "", "2"]


def test_no_more_is_read_than_is_to_be_played(tmp_path: Path) -> None:
    path = log(tmp_path, HEADER + GOOD + GOOD.replace("1 10", "2 11", 1) + "nonsense\n")
    assert [task.job.id for task in swf.read(path, first=2).tasks] == ["1", "2"]


def test_a_real_log() -> None:
    found = swf.read(KTH)
    assert len(found.tasks) == 3999
    assert dict(found.dropped) == {"jobs that never ran (run time 0 or unknown)": 1}
