"""Result files: written atomically, and an error in one never loses the printed table."""

from __future__ import annotations

import csv
import errno
import json
from pathlib import Path

import pytest

from phalanx.cli.app import build
from phalanx.cli.study.simulation.results import whole
from phalanx.errors import PhalanxError
from phalanx.simulator.readers import swf
from tests.simulator.builders import KTH

NAMED = """
nodes: [{name: n, allocatable: {cpu: 8}}]
jobs:
- {id: a, submit: 0, run: 1m, limit: 2m, user: ada, queue: research, requests: {cpu: 500m}}
- {id: '7', submit: 10, run: 30s, user: ben, requests: {cpu: 2}}
- {id: b, submit: 20, run: 5s, user: ada, queue: production, requests: {cpu: 16}}
"""


def simulate(*words: object) -> int:
    return build("simulate")(["simulate", *map(str, words)], exit_on_error=False, result_action="return_value")


def test_a_disk_that_is_full_costs_the_file_and_not_the_results(tmp_path: Path, capsys) -> None:
    table = tmp_path / "r.csv"
    full = Path("/dev/full")
    assert simulate(KTH, "--first", 20, "--report", full, "--csv", table, "--json", "--processes", 1) == 1
    told = capsys.readouterr()
    assert json.loads(told.out)["finished"] == 20
    assert "/dev/full cannot be written: No space left on device" in told.err
    assert len(list(csv.DictReader(table.open()))) == 1


def test_what_cannot_be_written_leaves_what_was_there(tmp_path: Path) -> None:
    file = tmp_path / "r.csv"
    file.write_text("of yesterday")
    with pytest.raises(PhalanxError, match="cannot be written: no room"):
        write_half(file)
    assert {each.name: each.read_text() for each in tmp_path.iterdir()} == {"r.csv": "of yesterday"}


def write_half(file: Path) -> None:
    with whole(file) as part:
        part.write_text("half of it")
        raise OSError(errno.ENOSPC, "no room")


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["--csv", "FOLDER"], "FOLDER cannot be written: it is a folder"),
        (["--csv", "FOLDER/r", "--schedule", "FOLDER/r"], "FOLDER/r is given for two results"),
    ],
)
def test_where_nothing_can_be_written_is_said_before_anything_is_played(
    tmp_path: Path, words: list[str], complaint: str
) -> None:
    with pytest.raises(PhalanxError) as raised:
        simulate(KTH, "--first", 5, *(word.replace("FOLDER", str(tmp_path)) for word in words))
    assert complaint.replace("FOLDER", str(tmp_path)) in str(raised.value)


@pytest.mark.parametrize(
    "words",
    [
        ["LOG", "--schedule", "LOG"],
        [KTH, "--policy", "LOG", "--csv", "LOG"],
        [KTH, "--cluster", "LOG", "--report", "LOG"],
    ],
)
def test_what_is_read_is_not_written_over(tmp_path: Path, words: list[object]) -> None:
    log = tmp_path / "mine.yaml"
    log.write_text(NAMED)
    with pytest.raises(PhalanxError, match="is an input file; name another file for the results"):
        simulate(*(log if word == "LOG" else word for word in words))
    assert log.read_text() == NAMED


def test_logs_of_one_name_in_two_folders_are_told_apart(tmp_path: Path, capsys) -> None:
    for folder in ("x", "y"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "own.yaml").write_text(NAMED)
    traces = [tmp_path / folder / "own.yaml" for folder in ("x", "y")]
    assert simulate(*traces, "--policy", "fifo", "--schedule", tmp_path / "s.csv", "--json", "--processes", 1) == 3
    found = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [each["trace"] for each in found] == list(map(str, traces))
    assert {each.name for each in tmp_path.glob("s*")} == {"s-own-fifo-user-0.csv", "s-own-fifo-user-0-2.csv"}


def test_nothing_is_played_twice(capsys) -> None:
    assert simulate(KTH, KTH, "--first", 5, "--policy", "fifo", "fifo", "--json", "--processes", 1) == 0
    assert len(capsys.readouterr().out.splitlines()) == 1


@pytest.mark.parametrize("name", ["s.swf", "s.swf.gz"])
def test_names_in_a_log_become_numbers_that_its_header_tells(tmp_path: Path, capsys, name: str) -> None:
    trace, log = tmp_path / "own.yaml", tmp_path / name
    trace.write_text(NAMED)
    assert simulate(trace, "--policy", "greedy", "--schedule", log, "--processes", 1) == 3
    found = swf.read(log)
    assert [(task.job.id, task.job.user, task.queue) for task in found.tasks] == [("1", "1", "1"), ("2", "2", "")]
    assert dict(found.tasks[0].job.roles[0].shape.requests) == {"cpu": 1000}  # half of one is one
    lines = {text for _, text in swf.SourceFile(log).lines()}
    assert {"; Queue: 1 research", "; Queue: 2 production", "; Note: user: 1 ada"} <= lines


def test_a_table_of_jobs_with_deadlines_says_what_was_missed_and_attained(tmp_path: Path, capsys) -> None:
    work, report = tmp_path / "work.yaml", tmp_path / "r.html"
    job = "submit: 0, run: 50, requests: {cpu: 8}"
    work.write_text(
        "nodes: [{name: n, allocatable: {cpu: 8}}]\n"
        f"jobs:\n- {{id: a, deadline: 60, {job}}}\n- {{id: b, worth: {{60: 2, 100: 1}}, {job}}}\n"
    )
    assert simulate(work, "--report", report, "--processes", 1) == 0
    heads, cells = (line.split() for line in capsys.readouterr().out.splitlines())
    assert heads[-3:-1] == ["MISSED", "VALUE"]
    assert cells[-3:-1] == ["0.0%", "66.7%"]  # b is over after 100 s: 1 of 2, and a its 1
    assert "<th>value attained</th>" in report.read_text()
    work.write_text(f"nodes: [{{name: n, allocatable: {{cpu: 8}}}}]\njobs: [{{id: a, {job}}}]\n")
    assert simulate(work, "--report", report, "--processes", 1) == 0
    assert "VALUE" not in capsys.readouterr().out
    assert "value attained" not in report.read_text()


def test_dear_measures_are_taken_when_they_are_asked_for(tmp_path: Path, capsys) -> None:
    # b wants both nodes, and waits for a until 10; c, which comes later, runs on the other one until 50.
    work = tmp_path / "work.yaml"
    work.write_text(
        "nodes: [{name: n, count: 2, allocatable: {cpu: 8}}]\n"
        "jobs:\n- {id: a, submit: 0, run: 10, requests: {cpu: 8}}\n- {id: b, submit: 1, run: 5, pods: 2, requests: "
        "{cpu: 8}}\n- {id: c, submit: 2, run: 48, requests: {cpu: 4}}\n"
    )
    dear = ("--fair-starts", 9, "--compactions", 3)
    assert simulate(work, "--policy", "greedy", "--json", *dear, "--processes", 1) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["fair_start_jobs"], found["max_fair_start_miss_s"], found["compacted_cell_ratio"]) == (3, 40, 1)
    assert simulate(work, "--policy", "greedy", "fifo", *dear, "--processes", 1) == 0
    heads, greedy, fifo = (line.split() for line in capsys.readouterr().out.splitlines())
    assert (heads[-3:-1], greedy[-3:-1], fifo[-3:-1]) == (["UNFAIR", "PACKED"], ["33.3%", "100.0%"], ["0.0%", "100.0%"])
    assert simulate(work, "--json", "--processes", 1) == 0
    assert not {"fair_start_jobs", "compacted_cell_ratio"} & json.loads(capsys.readouterr().out).keys()
