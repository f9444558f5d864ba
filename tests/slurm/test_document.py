"""`slurm/commands/jobs/document.py`: the JSON of `squeue --json`."""

from __future__ import annotations

import msgspec

from phalanx.slurm.commands.jobs.document import document
from phalanx.slurm.jobs.view import JobInfo
from tests.slurm.test_command_lines import ask


def test_the_json_of_jobs_has_every_name_of_slurm() -> None:
    waits = JobInfo(number=7, ask=ask("-a 1-3%2 --gres gpu:1 --mem 100").ask, state="PENDING", submit_s=5.0)
    waits.ask.array, waits.ask.task, waits.ask.throttle = 7, 1, 2
    second = msgspec.structs.replace(waits, number=8, ask=msgspec.structs.replace(waits.ask, task=2), others=[])
    [shown] = msgspec.json.decode(document("lab", [waits, second]))["jobs"]
    assert len(shown) >= 105
    assert (shown["job_id"], shown["array_task_id"], shown["array_task_string"]) == (7, None, "1-2%2")
    assert (shown["memory_per_node"], shown["tres_per_node"], shown["cluster"]) == (100, "gres:gpu:1", "lab")
