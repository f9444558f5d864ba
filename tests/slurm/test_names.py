"""`slurm/jobs/names.py`: the names that a job has."""

from __future__ import annotations

from phalanx.slurm.jobs.ask import Ask
from phalanx.slurm.jobs.names import file_name


def test_file_names() -> None:
    job = Ask(name="pat", user="u1", uid=1, gid=1, group="g", account="a", partition="p", workdir="/w")
    assert file_name("o-%j-%A-%x-%u-%%.txt", job, 7, running=True) == "/w/o-7-7-pat-u1-%.txt"
    assert file_name("%8j", job, 7, running=True) == "/w/00000007"
    assert file_name("%N-%n-%t-%s", job, 7, running=True) == "/w/\x01N-0-0-batch"
    assert file_name("%N.txt", job, 7) == "/w/%N.txt"
    assert file_name("/abs/%j", job, 7) == "/abs/7"
    assert file_name("%J-%8j-%j", job, 7) == "/w/%J-%8j-7"  # as scontrol shows them
    assert file_name("\\\\%j", job, 7, running=True) == "/w/\\%j"
    assert file_name("\\%j", job, 7, running=True) == "/w/%j"
