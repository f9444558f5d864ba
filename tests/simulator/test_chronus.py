"""`simulator/readers/chronus.py`: the traces of Chronus (Gao et al., SoCC'21), derived from Philly's."""

from __future__ import annotations

from pathlib import Path

import pytest

from phalanx.simulator.readers import chronus
from phalanx.simulator.readers.lines import TraceError
from tests.simulator.builders import DATA


def test_chronus_has_deadlines() -> None:
    by_id = {task.job.id: task for task in chronus.read(DATA / "chronus.csv").tasks}
    assert by_id["0"].job.deadline_s == 8555 + 1105
    assert by_id["2"].job.deadline_s is None  # best effort
    assert by_id["0"].queue == "vc_6214e9"


def test_what_jobs_of_chronus_are_worth(tmp_path: Path) -> None:
    trace = tmp_path / "chronus.csv"
    header = "job_id,user,num_gpu,submit_time,duration,expect_time_list,expect_value_list,job_type\n"
    trace.write_text(header + "0,u,1,100,60,90-120-150,10-8-5,soft\n1,u,1,100,60,90,10,strict\n2,u,1,0,9,100,10,best\n")
    by_id = {task.job.id: task for task in chronus.read(trace).tasks}
    assert by_id["0"].worth == ((90, 10), (120, 8), (150, 5))
    assert by_id["0"].job.deadline_s == 250
    assert by_id["1"].worth == ((90, 10),)
    assert by_id["2"].worth == ()  # best effort
    trace.write_text(header + "0,u,1,100,60,90-120,10,soft\n")
    with pytest.raises(
        TraceError, match=r"csv:2:7: expect_value_list: '10' are not as many as the 2 in expect_time_list"
    ):
        chronus.read(trace)
