"""The JSON of sacct."""

from __future__ import annotations

import msgspec

from phalanx.slurm.commands.accounting.sacct_document import document as accounting
from phalanx.slurm.commands.accounting.sacct_fields import SacctLine
from phalanx.slurm.jobs.steps.records import StepRecord
from phalanx.slurm.jobs.view import JobInfo
from tests.slurm.test_command_lines import ask


def test_the_json_of_the_accounting_has_steps_in_their_job() -> None:
    ran = JobInfo(number=7, ask=ask("-n2 --wrap true").ask, state="FAILED", exit_code=3, start_s=5.0, end_s=9.5)
    step = StepRecord(name="batch", cpus=2, nodes=["n1"], start_s=5.0, end_s=9.0, signal=9)
    [shown] = msgspec.json.decode(accounting("lab", [SacctLine(ran, "", ""), SacctLine(ran, "batch", "", step)]))[
        "jobs"
    ]
    assert shown["exit_code"] == {"status": "ERROR", "return_code": 3}
    killed = {"status": "SIGNALED", "return_code": None, "signal": {"signal_id": 9, "name": "Killed"}}
    assert (shown["time"]["elapsed"], shown["steps"][0]["exit_code"]) == (4, killed)
