"""`slurm/jobs/pages.py`: what `scontrol show` prints of nodes, and the number that it prints of a job."""

from __future__ import annotations

from msgspec.structs import replace

from phalanx.slurm.jobs import pages
from phalanx.slurm.jobs.ask import Ask
from phalanx.slurm.jobs.fields import shown_together
from phalanx.slurm.jobs.nodes import NodeInfo, Used
from phalanx.slurm.jobs.view import JobInfo


def test_details_of_nodes_and_tasks_that_were_cancelled_together() -> None:
    node = NodeInfo(name="n", cpus=4, memory_mib=100, gpus=0, ready=True, drained=False)
    for details in (True, False):
        lines = [" ".join(words) for words in pages.node(node, "idle", Used(gpus=0), ["p"], details=details)]
        assert ("GresDrain=N/A" in lines, "GresUsed=gpu:0" in lines) == (details, details)
    plain = Ask(name="j", user="u", uid=0, gid=0, group="u", account="a", partition="p", array=10)
    pair = [JobInfo(number=10 + at, ask=replace(plain, task=at), state="PENDING") for at in (1, 2)]
    gone = [replace(job, state="CANCELLED", held=False, others=[]) for job in pair]
    [line] = shown_together(gone)
    assert line.own == 10
    assert gone[1].own == 12
