"""Why jobs are refused and why they wait, as a real Slurm 22.05.8 said it (golden/slurm_reasons_backfill.txt).

Each recorded sbatch line is read by ours, for a site as the real one was. What only a scheduler that runs can say
(limits of running jobs, dependencies, backfill) is not compared here.
"""

from __future__ import annotations

import re
import shlex
import time
from pathlib import Path
from typing import Any

import msgspec
import pytest

from phalanx.slurm.accounts.enforced import check
from phalanx.slurm.commands.launch import sbatch
from phalanx.slurm.jobs import fields
from phalanx.slurm.jobs.ask import ASK, NUMBER, Ask, Asks
from phalanx.slurm.jobs.view import JobInfo, _Job, _miss_deadline, _rank, _read
from phalanx.slurm.options import Usage
from phalanx.slurm.submission.asked.request import SubmissionRequest, request
from phalanx.slurm.submission.asked.size import Hardware
from tests.slurm.test_default_outputs import SITE

TEXT = (Path(__file__).parent / "golden" / "slurm_reasons_backfill.txt").read_text().split("\n## EASY backfill")[0]
RECORDED = re.findall(r"^\$ sbatch (\w+) \w+ (.*) --wrap .*\n((?:(?:Submitted|sbatch:).*\n)+)", TEXT, re.MULTILINE)
REASONS = dict(re.findall(r"^\s*\S+ +batch +(\S+) +\w+ +PD .*\((\w+)\)$", TEXT.split("## plain")[1], re.MULTILINE))
HARDWARE = Hardware(cpus=64, memory_mib=256000, gpus=4, nodes=8)
OPEN = msgspec.structs.replace(SITE, users={})
AT_ONCE = {"PartitionNodeLimit", "PartitionTimeLimit", "JobHeldUser", "QOSMaxCpuPerUserLimit"}


def read(options: str) -> SubmissionRequest:
    said, _ = sbatch._READER.read([*shlex.split(options), "--wrap", "true"])
    return request(dict(said), OPEN, HARDWARE, None, [], f"sbatch {options} --wrap true")


@pytest.mark.parametrize("name", ["badpart", "gpu5", "bigmem"])
def test_a_line_is_refused_in_slurms_words(name: str) -> None:
    [(options, answer)] = [(options, answer) for _, options, answer in RECORDED if f"-J {name} " in f"{options} "]
    with pytest.raises(Usage) as error:
        read(options)
    assert error.value.text == answer.rstrip("\n")


def test_what_is_known_at_submission_holds_the_jobs_that_slurm_held() -> None:
    held = {}
    for user, options, answer in RECORDED:
        if answer.startswith("Submitted"):
            ask = msgspec.structs.replace(read(options).ask, user=user)
            held[ask.name] = ask.hold or check(OPEN, ask, 1, list).hold
    assert len(held) == 12
    expected = {name: reason if (reason := REASONS.get(name, "")) in AT_ONCE else "" for name in held}
    assert held == expected
    assert {*expected.values()} >= AT_ONCE


@pytest.mark.parametrize(
    ("late_s", "held", "state"),
    [(-10, False, "PENDING"), (3, False, "PENDING"), (10, False, "DEADLINE"), (10, True, "PENDING"),
     (60, True, "DEADLINE")],
)  # fmt: skip
def test_a_job_misses_its_deadline_when_slurm_looks(*, late_s: float, held: bool, state: str) -> None:
    """Slurm tries a job at once that can just end by its deadline, and looks at held jobs twice a minute."""
    ask = Ask(
        name="j", user="a", uid=1, gid=1, group="g", account="l", partition="b", deadline_s=time.time() - late_s + 60
    )
    ask.limit_min = 1
    job = JobInfo(number=1, ask=ask, state="PENDING", held=held)
    _miss_deadline(job, (ask.deadline_s or 0.0) - 60)
    assert job.state == state
    ended = state == "DEADLINE"
    assert (job.reason == "DeadLine", job.held, job.end_s is not None) == (ended, held and not ended, ended)


def test_the_fourth_job_of_a_user_is_over_the_limit() -> None:
    lines = [(user, options, answer) for user, options, answer in RECORDED if "-q lim" in options]
    asks = [msgspec.structs.replace(read(options).ask, user=user) for user, options, _ in lines]
    jobs = [JobInfo(number=at, ask=ask, state="PENDING") for at, ask in enumerate(asks)]
    refused = [check(OPEN, ask, 1, lambda at=at: jobs[:at]).refused for at, ask in enumerate(asks)]  # type: ignore[misc]  # no type can be told of `at`
    assert refused == ["", "", "", "QOSMaxSubmitJobPerUserLimit"]
    assert lines[3][2].startswith("sbatch: error: QOSMaxSubmitJobPerUserLimit\n")


def test_limits_on_running_jobs_are_hidden_behind_a_job_that_waits_for_resources() -> None:
    """As in a real Slurm 22.05: the first job of a partition waits for Resources, and the jobs behind it for Priority,
    whatever their users' limits are. Reasons from the submission stay, and so do those of other partitions."""

    def waiting(number: int, reason: str, partition: str = "batch") -> JobInfo:
        ask = Ask(name="j", user="u", uid=1, gid=1, group="g", account="a", partition=partition)
        return JobInfo(number=number, ask=ask, state="PENDING", reason=reason)

    found = [
        waiting(1, "QOSMaxJobsPerUserLimit"),
        waiting(2, "Resources"),
        waiting(3, "Resources"),
        waiting(4, "QOSMaxJobsPerUserLimit"),
        waiting(5, "QOSMaxCpuPerUserLimit"),
        waiting(6, "AssocMaxJobsLimit", "short"),
    ]
    _rank(found)
    assert [job.reason for job in found] == [
        "QOSMaxJobsPerUserLimit",
        "Resources",
        "Priority",
        "Priority",
        "QOSMaxCpuPerUserLimit",
        "AssocMaxJobsLimit",
    ]


def waiting_for(reason: str, numbers: str, **more: Any) -> JobInfo:
    """Return the job that squeue reads from a Job with the scheduler's reason and its numbers."""
    ask = Ask(name="j", user="u", uid=1, gid=1, group="g", account="a", partition="b", **more)
    notes = {
        ASK: msgspec.json.encode(ask).decode(),
        "phalanx.dev/reason": reason,
        "phalanx.dev/reason-numbers": numbers,
    }
    meta = {"name": "j", "namespace": "user-u", "labels": {NUMBER: "7"}, "annotations": notes}
    found = _read(msgspec.convert({"metadata": meta, "spec": {"suspend": True}}, _Job), Asks())
    assert found is not None
    return found


@pytest.mark.parametrize("in_s", [120.0, 80_000.0, 900_000.0])
def test_the_expected_start_is_a_number_of_the_reason_not_its_sentence(in_s: float) -> None:
    at_s = time.time() + in_s
    found = waiting_for("NoRoom: enough is expected back by 00:00:01 UTC", f'{{"enough_s": {at_s}, "later": [1]}}')
    assert (found.reason, found.expected_s) == ("Resources", pytest.approx(at_s))
    assert fields.start_s(found) == found.expected_s


@pytest.mark.parametrize(
    "numbers", ["", "{", "[]", "{}", '{"enough_s": "soon"}', '{"enough_s": 1e300}', '{"enough_s": 9}']
)
def test_no_start_is_expected_without_a_time_that_is_to_come(numbers: str) -> None:
    assert waiting_for("NoRoom: enough is expected back by 23:59:59 UTC", numbers).expected_s is None


@pytest.mark.parametrize(
    ("numbers", "reason"),
    [
        ('{"reservation": "maint"}', "ReqNodeNotAvail, May be reserved for other job"),
        ('{"reservation": "own"}', "Priority"),
        ("{}", "Priority"),
    ],
)
def test_a_reservation_of_others_is_named_by_the_numbers(numbers: str, reason: str) -> None:
    assert waiting_for("Reserved: any sentence", numbers, reservation="own").reason == reason
