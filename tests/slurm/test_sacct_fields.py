"""`slurm/commands/accounting/sacct_fields.py`: the fields of sacct."""

from __future__ import annotations

import msgspec
import pytest

from phalanx.slurm.commands.accounting import sacct
from phalanx.slurm.commands.accounting.sacct_document import document as accounting
from phalanx.slurm.commands.accounting.sacct_fields import BRIEF, LONG, SacctLine, columns_of
from phalanx.slurm.jobs.steps.records import StepRecord
from phalanx.slurm.jobs.view import Job
from phalanx.slurm.options import Usage
from tests.slurm.test_command_lines import ask


def test_the_json_of_the_accounting_has_steps_in_their_job() -> None:
    ran = Job(number=7, ask=ask("-n2 --wrap true").ask, state="FAILED", exit_code=3, start_s=5.0, end_s=9.5)
    step = StepRecord(name="batch", cpus=2, nodes=["n1"], start_s=5.0, end_s=9.0, signal=9)
    [shown] = msgspec.json.decode(accounting("lab", [SacctLine(ran, "", ""), SacctLine(ran, "batch", "", step)]))[
        "jobs"
    ]
    assert shown["exit_code"] == {"status": "ERROR", "return_code": 3}
    killed = {"status": "SIGNALED", "return_code": None, "signal": {"signal_id": 9, "name": "Killed"}}
    assert (shown["time"]["elapsed"], shown["steps"][0]["exit_code"]) == (4, killed)


def test_a_list_that_is_named_again_goes_on() -> None:
    assert sacct._together([("user", "u1"), ("format", "a"), ("user", "root"), ("format", "b")]) == {
        "user": "u1,root",
        "format": "a,b",
    }


def test_brief_adds_its_fields_to_those_of_other_options() -> None:
    def names(**said: str | None) -> list[str]:
        return [name for name, _ in columns_of(said)]

    assert names(brief=None, format="User,State") == ["User", "State", *BRIEF.split(",")]
    assert names(brief=None, long=None) == [*names(brief=None), *names(long=None)] == [
        *BRIEF.split(","), *LONG.split(","),
    ]  # fmt: skip
    with pytest.raises(Usage, match="mutually exclusive"):
        names(long=None, format="User")


def test_jobs_in_a_state_may_be_asked_for_from_a_moment_that_comes() -> None:
    later = {"starttime": "2099-01-01"}
    start, end = sacct._window({**later, "state": "ca"}, by_id=False)
    assert start == end
    for said in (later, {**later, "state": "ca", "endtime": "now"}):
        with pytest.raises(Usage, match="is after end time"):
            sacct._window(said, by_id=False)
    for line in ("-E 2020-01-01 -o nothing", "-S 2099-01-01 -o nothing"):
        with pytest.raises(Usage, match="is after end time"):
            sacct.run(line.split())
