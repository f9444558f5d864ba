"""`slurm/commands/jobs/squeue.py`: squeue."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from msgspec.structs import replace

from phalanx.slurm.commands.jobs import squeue
from phalanx.slurm.jobs.view import JobInfo
from phalanx.slurm.options import OptionReader, Usage
from tests.slurm.test_command_lines import ask


def test_an_option_with_two_spellings_is_not_ambiguous() -> None:
    reader = OptionReader("squeue", squeue.OPTIONS)
    assert reader.read(["--user=a", "--users=b", "--nod=n"])[0] == [("users", "a"), ("users", "b"), ("nodelist", "n")]
    with pytest.raises(Usage) as error:
        reader.read(["-h", "--no"])
    listed = "'--noconvert' '--node' '--nodes' '--nodelist' '--noheader'"  # in Slurm's order
    assert f"possibilities: {listed}" in error.value.text


def test_what_squeue_chooses() -> None:
    job = JobInfo(number=12, ask=ask("-J Held").ask, state="PENDING")
    assert squeue._asked({"name": "HELD,x"}).has(job)
    assert not squeue._asked({"name": "hel"}).has(job)
    assert squeue._asked({"jobs": "12;beside"}).has(job)
    for text, chosen in (("12_[1-2]", [0]), ("12_2", [2]), ("12", [0, 1, 2]), ("12_[1-2],12_1", [0, 1])):
        tasks = [JobInfo(number=12, ask=replace(job.ask, array=12, task=task), state="PENDING") for task in range(3)]
        assert [task.ask.task for task in tasks if squeue._asked({"jobs": text}).has(task)] == chosen
    assert squeue._asked({"steps": "", "states": "CD"}).has(job)  # steps run, whatever states are named


def test_squeue_turns_jobs_without_nodes_round_by_nodes() -> None:
    """Measured on 22.05: with -S N jobs without nodes come in the opposite order; waiting tasks of an array stay."""
    array = ask("-a 1-2").ask
    tasks = [JobInfo(number=11 + task, ask=replace(array, array=11, task=task), state="PENDING") for task in (0, 1)]
    jobs = [
        JobInfo(number=20, ask=ask("").ask, state="PENDING"),
        *tasks,
        JobInfo(number=10, ask=ask("").ask, state="PENDING"),
    ]
    assert [job.number for job in squeue._sorted(list(jobs), {"sort": "N"})] == [10, 11, 12, 20]
    assert [job.number for job in squeue._sorted(list(jobs), {"sort": "-N"})] == [20, 11, 12, 10]


@pytest.mark.parametrize(("line", "users"), [("-u ada --me", None), ("--me -u ada", "ada"), ("-u ada", "ada")])
def test_the_last_of_user_and_me_counts(line: str, users: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    shown: list[Mapping[str, str | None]] = []
    monkeypatch.setattr(squeue.ApiClient, "open", lambda: None)
    monkeypatch.setattr(squeue, "_show", lambda api, said: shown.append(said) or 0)
    assert squeue.run(line.split()) == 0
    assert shown[0].get("user") == users
    assert ("me" in shown[0]) is (users is None)
