"""Columns of `sacctmgr list`: how much of a name must be typed, and widths."""

from __future__ import annotations

import pytest

from phalanx.slurm.commands.accounting.entities.columns import chosen, listed
from phalanx.slurm.options import Usage


@pytest.mark.parametrize(
    ("form", "headings"),
    [
        ("maxj,maxjobsa,maxjobsp", None), ("maxj,maxjobsa", ["MaxJobs", "MaxJobsAccrue"]),
        ("acc,,u", ["Account", "User"]),
        ("preempt,preempte", ["Preempt", "PreemptExemptTime"]), ("accounts", None), ("", None), ("fairs", ["Share"]),
        ("maxcpus,maxcpusperu", ["MaxCPUs", "MaxCPUsPU"]), ("parent", None), ("nodename", ["NodeName"]),
    ],
)  # fmt: skip
def test_how_much_of_a_field_must_be_typed(form: str, headings: list[str] | None) -> None:
    if headings is None:
        with pytest.raises(Usage, match="Unknown field"):
            chosen(form)
        return
    assert [one.printed.heading for one in chosen(form)] == headings


def test_a_width_that_is_none_is_the_fields_own(capsys: pytest.CaptureFixture[str]) -> None:
    listed(chosen("account%x,user%-5,descr%3"), [{"account": "chem", "descr": "chem"}], {})
    assert capsys.readouterr().out == ("   Account User  Des \n---------- ----- --- \n      chem       ch+ \n")
