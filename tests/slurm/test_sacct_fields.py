"""`slurm/commands/accounting/sacct_fields.py`: the fields of sacct."""

from __future__ import annotations

import pytest

from phalanx.slurm.commands.accounting import sacct
from phalanx.slurm.commands.accounting.sacct_fields import BRIEF, LONG, columns_of
from phalanx.slurm.options import Usage


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
