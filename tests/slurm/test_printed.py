"""Columns of the accounting commands: what a real Slurm 22.05 printed for the same forms and values."""

from __future__ import annotations

import pytest

from phalanx.slurm.commands.accounting.sacct_fields import columns_of
from phalanx.slurm.notation.printed import Cell, Printed, chosen, named, show
from phalanx.slurm.options import Usage, require_cluster

WIDTHS = {"Account": -20, "FairShare": 10, "RawUsage": 11, "User": 10}


@pytest.mark.parametrize(
    ("value", "width", "printed"),
    [
        (1.0, 9, " 1.000000"),
        (1.0, 7, "1.0e+00"),
        (0.00990099, 5, "9.900990e-03"),  # narrower than an exponent: six places, and nothing is cut
        (2.0**-32, 3, "2.328306e-10"),
        (float("inf"), 3, "inf"),
        (1.0, -12, "1.000000    "),
        ("physics", 3, "ph+"),
        ("physics", -3, "ph+"),
        ("physics", 0, ""),
        ("u1", 3, " u1"),
    ],
)
def test_a_value_in_a_column_as_slurm_cuts_it(value: Cell, width: int, printed: str) -> None:
    assert Printed("X", width).cell(value) == printed


def test_numbers_and_durations_are_not_cut_and_moments_without_a_plus() -> None:
    assert Printed("UID", 2, whole=True).cell("20001") == "20001"
    assert Printed("End", 5, moment=True).cell("2026-11-29T05:00:00") == "2026-"
    assert (Printed("RawShares", 3).title, Printed("User", -6).title) == ("Raw", "User  ")


def test_a_field_is_the_first_that_begins_so_and_has_the_last_width_named() -> None:
    assert named("fairs%3x", WIDTHS) == ("FairShare", 3)
    assert named("user%x", WIDTHS) == ("User", 0)
    assert named("nothing", WIDTHS) == ("", None)
    assert chosen("user%3,acc,USER%-5", WIDTHS, Usage) == [("User", -5), ("Account", -20), ("User", -5)]
    assert chosen("user,,account", WIDTHS, Usage) == [("User", 10)]  # an empty word ends the list
    assert chosen("user%0", WIDTHS, Usage) == [("User", 10)]
    assert chosen("user%0, raw", WIDTHS, Usage, zero=True) == [("User", 0), ("RawUsage", 11)]


def test_forms_of_sacct() -> None:
    shown = columns_of({"format": "job,elapsedraw%2,end%5,maxvmsize,timelimitraw%1"})
    assert [(name, column.width) for name, column in shown] == [
        ("JobID", -12), ("ElapsedRaw", 2), ("End", 5), ("MaxVMSize", 10), ("TimelimitRaw", 1),
    ]  # fmt: skip
    assert [column.cell("12345") for _, column in shown[1:]] == ["12345", "12345", "     12345", "+"]
    every = columns_of({"format": "all%3"})
    assert len(every) == 109
    assert {column.width for _, column in every} == {3}
    with pytest.raises(Usage, match='sacct: error: Invalid field requested: "nothing"'):
        columns_of({"format": "jobid,nothing%5"})


def test_rows_with_separators(capsys: pytest.CaptureFixture[str]) -> None:
    columns = [Printed("A", 3), Printed("B", 2, whole=True)]
    show(columns, [["abcd", 0.5]], {"parsable2": None})
    show(columns, [["abcd", "7"]], {"parsable": None, "noheader": None}, ";")
    show(columns, [["abcd", "777"]], {})
    assert capsys.readouterr().out.splitlines() == ["A|B", "abcd|0.500000", "abcd;7;", "  A  B ", "--- -- ", "ab+ 777 "]


def test_clusters_by_name(capsys: pytest.CaptureFixture[str]) -> None:
    for text in ("ALL", "Beside", "nowhere,beside"):
        require_cluster("squeue", text, "beside")
    assert capsys.readouterr().err == "squeue: error: No cluster 'nowhere' known by database.\n"
    with pytest.raises(Usage) as error:
        require_cluster("squeue", "x,all", "beside")
    assert error.value.text.splitlines()[2].startswith("squeue: error: 'x,all' can't be reached now")
