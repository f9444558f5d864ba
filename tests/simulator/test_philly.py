"""`simulator/readers/philly.py`: microsoft's Philly trace (Jeon et al., ATC'19) as a table of jobs."""

from __future__ import annotations

from pathlib import Path

import pytest

from phalanx.simulator.readers import philly
from phalanx.simulator.readers.lines import OnError, TraceError
from phalanx.simulator.workload import GPU
from tests.simulator.builders import DATA


def test_philly() -> None:
    found = philly.read(DATA / "philly.csv")
    assert len(found.tasks) == 39
    assert (found.counted, found.unit) == (GPU, 1)
    first = next(task for task in found.tasks if task.job.id == "philly-2")
    assert (first.job.submitted_s, first.run_s, first.queue) == (1507532515.0, 66.0, "11cb48")


@pytest.mark.parametrize(
    ("row", "complaint"),
    [
        ("2017-10-09 07:01:55,66.0,1,66.0,11cb48,more", ":3:6: 6 values where the header names 5 columns"),
        ("2017-10-09 07:0", ":3:2: 1 values where the header names 5 columns"),
        ("2017-13-09 07:01:55,66.0,1,66.0,11cb48", ":3:1: timestamp: '2017-13-09 07:01:55' is not like"),
        ("2017-10-09 07:01:55,x,1,66.0,11cb48", ":3:2: duration: 'x' is not a number"),
        ("2017-10-09 07:01:55,66.0,1.5,66.0,11cb48", ":3:3: num_gpus: '1.5' is not a whole number"),
        ("2017-10-09 07:01:55,66.0,-1,66.0,11cb48", ":3:3: num_gpus: '-1' is less than 0"),
        ("2017-10-09 07:01:55,66.0,9999999,66.0,11cb48", ":3:3: num_gpus: '9999999' is more than 1000000"),
        ('2017-10-09 07:01:55,66.0,1,66.0,"11cb48', ":3:1: this is no row of comma-separated values"),
        ("2017-10-09 07:01:55,1e12,1,66.0,11cb48", ":3:2: duration: '1e12' is more than 9000000000"),
        ("2017-10-09 07:01:55,inf,1,66.0,11cb48", ":3:2: duration: 'inf' is not a finite number"),
    ],
)
def test_where_a_table_is_wrong(tmp_path: Path, row: str, complaint: str) -> None:
    path = tmp_path / "p.csv"
    good = "2017-10-09 06:13:03,2951.0,1,2951.0,6214e9"
    path.write_text(f"timestamp,duration,num_gpus,gpu_time,cluster\n{good}\n{row}\n{good}\n")
    with pytest.raises(TraceError) as raised:
        philly.read(path)
    assert str(raised.value).startswith(f"{path}{complaint}")
    found = philly.read(path, on_error=OnError.SKIP)
    assert len(found.tasks) == 2
    assert len(found.faults) == 1


def test_a_header_that_lacks_a_column(tmp_path: Path) -> None:
    path = tmp_path / "p.csv"
    path.write_text("timestamp,duration\n")
    with pytest.raises(TraceError, match=r"p.csv:1: the header lacks the column 'num_gpus'"):
        philly.read(path)
    path.write_text("")
    with pytest.raises(TraceError, match="the file is empty"):
        philly.read(path)
