"""Forms, filters and words of squeue, sprio, sacct and scontrol that a real Slurm 22.05 was seen to read so."""

from __future__ import annotations

import pytest

from phalanx.slurm.commands.accounting import sacct
from phalanx.slurm.commands.jobs import sprio
from phalanx.slurm.jobs import fields
from phalanx.slurm.jobs.ask import Ask
from phalanx.slurm.jobs.view import JobInfo
from phalanx.slurm.options import Usage
from tests.slurm.beside.sweeps import COMMANDS, begun, sweep

ASK = Ask(name="train", user="u1", uid=1, gid=1, group="u1", account="physics", partition="batch", tasks=2)


def test_letters_that_do_not_exist_go_with_what_follows_them(capsys: pytest.CaptureFixture[str]) -> None:
    assert sprio._form({"format": "x%i,%-8Q|%.3r"}, sprio.Weights()) == "x%i,%.3r"
    assert capsys.readouterr().err == "sprio: error: Invalid job format specification: -\n"
    assert sprio._filled("%.3r|%5J", lambda letter: {"r": "PARTITION", "J": "JOBSIZE"}[letter]) == "PAR|JOBSI"


def test_headings_of_node_lists_are_not_cut_where_they_are_aligned_to_the_right() -> None:
    columns, wrong = fields.by_letters("%.3N|%.3R|%5Y|%.3u")
    assert (fields.heading(columns), wrong) == ("NODELIST|NODELIST(REASON)|SCHED|USE", [])


@pytest.mark.parametrize(
    ("said", "named"),
    [({"name": "TRAIN"}, True), ({"name": ""}, False), ({"partition": "short,BATCH"}, True),
     ({"nodelist": "cn2"}, False),
     ({"nodelist": "cn[1-3]"}, True), ({"reason": "priority"}, True), ({"reason": "Resources"}, False)],
)  # fmt: skip
def test_names_of_sacct_are_compared_without_regard_to_case(said: dict[str, str], *, named: bool) -> None:
    job = JobInfo(number=1, ask=ASK, state="PENDING", nodes=["cn1"], reason="Priority")
    assert sacct._is_named(job, said) == named


@pytest.mark.parametrize(
    ("option", "text", "why"),
    [("ncpus", "1x", 'Invalid numeric value "1x" for requested cpu range'), ("user", "", ""), ("group", "", ""),
     ("timelimit-min", "0", "Invalid time limit"), ("reason", "Foo", "unrecognized job reason value 'Foo'"),
     ("group", "99999", "Invalid group id: 99999")],
)  # fmt: skip
def test_what_sacct_cannot_read(option: str, text: str, why: str) -> None:
    with pytest.raises(Usage) as error:
        sacct._require_readable({option: text})
    assert why in error.value.text
    sacct._require_readable({"ncpus": "+3", "nnodes": " 1", "reason": "AssocGrpCpuLimit,none"})


def test_a_sweep_is_the_same_for_its_seed_and_begins_with_the_jobs_that_it_looks_at() -> None:
    for command in COMMANDS:
        made = list(sweep(command, 3, 50))
        assert made == list(sweep(command, 3, 50)) != list(sweep(command, 4, 50))
        assert sum(len(scene.steps) - begun(scene) for scene in made) == 50
        assert all(command in step.line for scene in made for step in scene.steps[begun(scene) :])
