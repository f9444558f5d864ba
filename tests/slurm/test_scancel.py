"""scancel: what it reports, in which words, and with which exit code, as a real Slurm 22.05 does."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from phalanx.slurm.commands.jobs import scancel
from phalanx.slurm.jobs.ask import Ask
from phalanx.slurm.jobs.steps.records import StepRecord
from phalanx.slurm.jobs.view import JobInfo
from phalanx.slurm.options import Usage

UNKNOWN, OVER = "Invalid job id specified", "Job/step already completing or completed"
WRONG = "scancel: error: Kill job error on job"
PLAIN = Ask(name="plain", user="u", uid=7, gid=7, group="u", account="lab", partition="batch")
THERE = [
    JobInfo(number=1, ask=PLAIN, state="PENDING"),
    *(JobInfo(number=task, ask=replace(PLAIN, array=10, task=task - 10), state="PENDING") for task in (11, 12)),
    JobInfo(number=20, ask=PLAIN, state="RUNNING", steps={0: StepRecord(name="s", nodes=["n"])}, nodes=("n",)),
    JobInfo(number=21, ask=PLAIN, state="COMPLETING", nodes=("n",)),
]
GONE = [
    JobInfo(number=30, ask=PLAIN, state="COMPLETED", nodes=("n",)),
    *(
        JobInfo(number=40 + at, ask=replace(PLAIN, array=40, task=at), state="CANCELLED", end_s=5.0 * (at // 3))
        for at in (1, 2, 3)
    ),
]
NONE = "scancel: error: No active jobs match ALL job filters"
Run = Callable[[str], tuple[int, list[str], list[int], list[tuple[int, int]]]]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Return (exit code, lines of standard error, jobs that were cancelled, signals that were sent)."""
    cancelled: list[int] = []
    sent: list[tuple[int, int]] = []

    def cancel_all(api: Any, going: list[JobInfo], refused: Any, *, now: bool) -> None:
        cancelled.extend(job.number for job in going)

    monkeypatch.setattr(scancel.ApiClient, "open", lambda: None)
    monkeypatch.setattr(scancel, "jobs", lambda api, numbers=None, **_: list(THERE))
    monkeypatch.setattr(scancel, "_recorded", lambda asked: [job for job in GONE if asked.has(job)])
    monkeypatch.setattr(scancel, "cancel_all", cancel_all)
    monkeypatch.setattr(scancel.running, "may", lambda api, job: True)
    monkeypatch.setattr(scancel.running, "send", lambda api, job, number, what: sent.append((job.number, number)))
    monkeypatch.setattr(scancel.os, "getuid", lambda: PLAIN.uid)

    def call(line: str) -> tuple[int, list[str], list[int], list[tuple[int, int]]]:
        try:
            status = scancel.run(line.split())
        except Usage as error:
            status, text = error.status, error.text
            return status, text.splitlines(), cancelled, sent
        return status, capsys.readouterr().err.splitlines(), cancelled, sent

    return call


@pytest.mark.parametrize(
    ("line", "status", "said", "ended"),
    [
        ("1", 0, [], [1]),
        ("-v 1", 0, ["scancel: Terminating job 1"], [1]),
        ("-v -Q 1", 0, [], [1]),
        ("-f -v 1", 0, ["scancel: Terminating full job 1"], [1]),
        ("-v 10_[1-2]", 0, ["scancel: Terminating job 10_[1-2]"], [11, 12]),
        ("99", 0, [], []),
        ("-v 99", 0, ["scancel: Terminating job 99", f"{WRONG} id 99: {UNKNOWN}"], []),
        ("-v 10_9", 0, ["scancel: Terminating job 10_9", f"{WRONG} id 10_9: {UNKNOWN}"], []),
        ("-v 30", 0, ["scancel: Terminating job 30", f"{WRONG} id 30: {OVER}"], []),
        ("-v 21", 0, ["scancel: Terminating job 21", f"{WRONG} id 21: {OVER}"], []),
        ("-v 40_3", 0, ["scancel: Terminating job 40_3", f"{WRONG} id 40_3: {OVER}"], []),
        ("-v 40", 0, ["scancel: Terminating job 40", f"{WRONG} id 40: {OVER}"], []),
        ("--sibling=x 40_1", 191, [f"{WRONG} id 40_1: Not a valid federated job"], []),
        ("--sibling=x 40_3", 191, [f"{WRONG} id 40_3: Not a valid federated job"], []),
        ("-v 40_1", 0, ["scancel: Terminating job 40_1", f"{WRONG} id 40_1: {UNKNOWN}"], []),
        ("--sibling=x 1", 191, [f"{WRONG} id 1: Not a valid federated job"], []),
        ("--sibling=x 30", 191, [f"{WRONG} id 30: Not a valid federated job"], []),
        ("--sibling=x 99", 0, [], []),
        ("-n plain 99", 1, [f"{WRONG} id 99: {UNKNOWN}"], []),
        ("-Q -n plain 99", 1, [], []),
        ("-n plain 1 99", 1, [f"{WRONG} id 99: {UNKNOWN}"], [1]),
        ("-n other -v 1", 0, ["scancel: error: No active jobs match ALL job filters, including: job_name=other "], []),
        ("-p batch -v 10", 0, ["scancel: Terminating job 10_[1-2]"], [11, 12]),
        ("-b -v 1", 0, ["scancel: Terminating batch job 1"], [1]),
        ("-s USR1 99", 1, [f"{WRONG} id 99: {UNKNOWN}"], []),
        ("-s KILL -v 1", 0, ["scancel: Signal 9 to job 1"], [1]),
        ("-s TERM 1", 228, [f"{WRONG} id 1: Job can not be altered now, try again later"], []),
        ("-s USR1 10", 228, [f"{WRONG} id 10_[1-2]: Job can not be altered now, try again later"], []),
        ("1.0", 0, [], []),
        ("99.0", 1, [f"{WRONG} step id 99.0: {UNKNOWN}"], []),
        ("-Q 99.0", 1, [], []),
        (
            "-n x -v 99.0",
            1,
            [f"{WRONG} step id 99.0: {UNKNOWN}", f"{NONE}, including: job_name=x "],
            [],
        ),
        ("--user=no,such --me 1", 0, [], []),
        ("--me --user=no,such 1", 1, ["scancel: error: Invalid user name: no,such"], []),
        ("20.9", 225, [f"{WRONG} step id 20: {UNKNOWN}"], []),
        ("-v 20.9", 225, ["scancel: Terminating step 20.9", f"{WRONG} step id 20: {UNKNOWN}"], []),
        ("-s USR1 20.9", 0, [], []),
        ("-t nothing -s nothing 1", 1, ["Invalid job state specified: nothing",
                                        "Valid job states are PENDING, RUNNING, and SUSPENDED"], []),
        ("-s nothing -t nothing 1", 1, ["Unknown job signal: nothing"], []),
    ],
)  # fmt: skip
def test_it_reports_in_the_words_of_slurm(run: Run, line: str, status: int, said: list[str], ended: list[int]) -> None:
    assert run(line) == (status, said, ended, [])


def test_a_signal_that_is_named_goes_to_the_steps_of_a_job_that_runs(run: Run) -> None:
    assert run("-s TERM 20") == (0, [], [], [(20, 15)])
    assert run("20.0") == (0, [], [], [(20, 15), (20, 15)])
