"""Tables of GPU jobs: Philly, Muri, Chronus, openb; and how a file's format is recognised."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from phalanx.model.pod import DeviceShare, Operator, Requirement
from phalanx.simulator.readers import chronus, muri, openb, philly, swf
from phalanx.simulator.readers.gpus import roles_of
from phalanx.simulator.readers.lines import OnError, TraceError
from phalanx.simulator.readers.recognise import is_node_list, reader_of
from phalanx.simulator.workload.workload import GPU
from tests.simulator.builders import DATA, KTH


def test_jobs_of_more_gpus_than_a_node_has_are_gangs() -> None:
    assert [(role.count, role.shape.requests) for role in roles_of(4)] == [(1, ((GPU, 4),))]
    assert [(role.count, role.shape.requests) for role in roles_of(20)] == [(2, ((GPU, 8),)), (1, ((GPU, 4),))]


def test_philly() -> None:
    found = philly.read(DATA / "philly.csv")
    assert len(found.tasks) == 39
    assert (found.counted, found.unit) == (GPU, 1)
    first = next(task for task in found.tasks if task.job.id == "philly-2")
    assert (first.job.submitted_s, first.run_s, first.queue) == (1507532515.0, 66.0, "11cb48")


def test_muri() -> None:
    found = muri.read(DATA / "muri.csv")
    second = found.tasks[1]
    assert (second.job.id, second.job.submitted_s, second.run_s) == ("1", 201_694, 4_540_029.773055)
    assert second.job.roles[0].shape.requests == ((GPU, 8),)


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


def test_openb_nodes() -> None:
    nodes = openb.read_nodes(DATA / "openb-nodes.csv")
    first = nodes[0]
    assert dict(first.allocatable) == {"cpu": 64000, "memory": 262144 * 2**20, GPU: 2, "pods": 1000}
    assert first.labels == ((openb.MODEL, "P100"),)
    assert [device.name for device in first.devices] == ["gpu-0", "gpu-1"]


def test_openb_pods(tmp_path: Path) -> None:
    tasks = {task.job.id: task for task in openb.read(DATA / "openb-pods.csv").tasks}
    shared = tasks["openb-pod-0001"]
    assert shared.job.roles[0].shape.share == DeviceShare(resource=GPU, milli=460)
    assert shared.run_s == 12902960 - 427061
    models = tmp_path / "pods.csv"
    models.write_text("name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec\np,1000,1,2,1000,V100M16|V100M32|V100M16\n")
    (task,) = openb.read(models).tasks
    assert task.job.roles[0].shape.affinity == ((Requirement(openb.MODEL, Operator.IN, ("V100M16", "V100M32")),),)
    assert dict(task.job.roles[0].shape.requests)[GPU] == 2
    assert task.run_s == float("inf")  # a list without times: they come one after the other, and stay


@pytest.mark.parametrize(
    ("name", "read"),
    [
        ("philly.csv", philly.read),
        ("muri.csv", muri.read),
        ("chronus.csv", chronus.read),
        ("openb-pods.csv", openb.read),
        (KTH.name, swf.read),
    ],
)
def test_formats_are_recognised(name: str, read: object) -> None:
    assert reader_of(DATA / name) is read


@pytest.mark.parametrize("name", ["philly.csv", "muri.csv", "chronus.csv", "openb-pods.csv"])
def test_however_a_table_is_written_it_is_read(tmp_path: Path, name: str) -> None:
    """Packed, with a mark before its header, names in quotes, lines that end as elsewhere."""
    header, *rows = (DATA / name).read_text().splitlines()
    quoted = ",".join(f'"{column}"' for column in header.split(","))
    path = tmp_path / "table"
    path.write_bytes(gzip.compress(("\ufeff" + "\r\n".join([quoted, *rows])).encode()))
    read = reader_of(path)
    assert read is reader_of(DATA / name)
    assert read(path).tasks == read(DATA / name).tasks


def test_other_files_are_not_taken_for_traces(tmp_path: Path) -> None:
    for text in ("", "a,b\n1,2\n", "\x00\x01\n"):
        path = tmp_path / "file.csv"
        path.write_text(text)
        with pytest.raises(TraceError, match="no trace that can be read"):
            reader_of(path)
    assert is_node_list(DATA / "openb-nodes.csv")
    assert not is_node_list(DATA / "openb-pods.csv")


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
