"""`--policy FILE.py`: priorities in Python, for a simulation and for a scheduler."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from phalanx import WaitingJob
from phalanx.cli.app import build
from phalanx.cli.files.policy_file import settings_from, settings_of, setup_of
from phalanx.cli.files.recording import require_recordable
from phalanx.errors import PhalanxError
from phalanx.model.policy import Backfill, Policy
from phalanx.model.queue import QueueOrder

JOB = WaitingJob(
    id="default/train",
    queue="default",
    user="ada",
    group="",
    priority=0,
    nice=0,
    qos="",
    pods=1,
    requests={"cpu": 4.0},
    waited_s=10.0,
    limit_s=None,
    estimate_s=None,
)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    file = tmp_path / "mine.py"
    file.write_text(
        "policy = {'backfill': 'greedy'}\n\n\ndef priority(job):\n    return job.waited_s * job.requests['cpu']\n"
    )
    return file


def test_a_simulation_has_one_queue_by_that_priority(file: Path) -> None:
    setup = setup_of(str(file))
    assert (setup.name, setup.policy.backfill, setup.flat) == ("mine", Backfill.GREEDY, True)
    assert [queue.order for queue in setup.queues] == [QueueOrder.MULTIFACTOR]
    assert setup.policy.priority_function is not None
    assert setup.policy.priority_function(JOB) == 40.0


def test_a_file_may_have_queues_of_its_own(file: Path) -> None:
    file.write_text(file.read_text() + "\nqueues = [{'name': 'research', 'order': 'multifactor'}, {'name': 'other'}]\n")
    setup = setup_of(str(file))
    assert [(queue.name, queue.order) for queue in setup.queues] == [
        ("research", QueueOrder.MULTIFACTOR),
        ("other", QueueOrder.PRIORITY),
    ]
    assert not setup.flat


def test_a_scheduler_reads_the_same_file(file: Path) -> None:
    settings = settings_of(file, "lab")
    assert (settings.policy.backfill, settings.policy.default_queue) == (Backfill.GREEDY, "lab")
    assert settings.policy.priority_function is not None
    assert settings.policy.priority_function(JOB) == 40.0


def test_other_processes_learn_the_name_of_the_file_and_run_nothing(file: Path) -> None:
    found = settings_from(settings_of(file).text())
    assert (found.function, found.policy) == ("mine.py", Policy(backfill=Backfill.GREEDY))


def test_it_cannot_be_recorded(file: Path, tmp_path: Path) -> None:
    with pytest.raises(PhalanxError, match="a Python function cannot be recorded"):
        require_recordable(tmp_path / "x.jsonl", settings_of(file).policy)
    assert not (tmp_path / "x.jsonl").exists()


def test_a_priority_that_fails_stops_a_simulation_and_names_the_line(file: Path) -> None:
    file.write_text("def priority(job):\n    return job.waited_s / 0\n")
    words = ("simulate", "tests/simulator/data/kth-sp2-4000.swf.gz", "--first", "20", "--policy", str(file))
    with pytest.raises(PhalanxError) as raised:
        build("simulate")(words, exit_on_error=False, result_action="return_value")
    assert str(raised.value).startswith(f"{file}:2: ZeroDivisionError: float division by zero, for job")


def test_a_scheduler_puts_the_job_last_and_logs_it_once(file: Path, caplog: pytest.LogCaptureFixture) -> None:
    file.write_text("def priority(job):\n    return job.requests['gpu']\n")
    function = settings_of(file).policy.priority_function
    assert function is not None
    with caplog.at_level(logging.ERROR):
        assert [function(JOB), function(JOB)] == [float("-inf")] * 2
    assert [record.getMessage() for record in caplog.records] == [
        f"{file}:2: KeyError: 'gpu', for job default/train; the job comes after all others"
    ]


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("def priority(job)\n", ":1: this is not Python: expected ':'"),
        ("x = 1\n\ny = x.z\n", ":3: AttributeError: 'int' object has no attribute 'z'"),
        ("rank = 1\n", ": define a function `priority(job)` that returns a number; higher is sooner"),
        ("policy = 'easy'\ndef priority(job): return 0\n", ": `policy` is a dict with the fields of a policy file"),
        ("policy = {'backfil': 'easy'}\ndef priority(job): return 0\n", "did you mean backfill?"),
    ],
)
def test_a_mistake_is_told_with_its_place(file: Path, text: str, complaint: str) -> None:
    file.write_text(text)
    for read in (lambda: setup_of(str(file)), lambda: settings_of(file)):
        with pytest.raises(PhalanxError) as raised:
            read()
        assert str(raised.value).startswith(str(file))
        assert complaint in str(raised.value)


def test_a_priority_is_a_number(file: Path) -> None:
    file.write_text("def priority(job):\n    return 'high'\n")
    function = setup_of(str(file)).policy.priority_function
    assert function is not None
    with pytest.raises(PhalanxError, match="priority returned 'high' for job default/train; return a number"):
        function(JOB)


def test_a_file_that_is_missing_is_said(tmp_path: Path) -> None:
    with pytest.raises(PhalanxError, match="there is no such file"):
        setup_of(str(tmp_path / "nothing.py"))
