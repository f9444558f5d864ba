"""The conditions, columns and units of sreport."""

from __future__ import annotations

import pytest

from phalanx.slurm.accounts.used import Period
from phalanx.slurm.cluster.site import Site
from phalanx.slurm.commands.accounting import sreport_asked
from phalanx.slurm.commands.accounting.sreport_asked import (
    AccountingColumn,
    ReportConditions,
    asked,
    chosen_columns,
    tres_of,
)
from phalanx.slurm.options import Usage

KNOWN = {"cluster": AccountingColumn("Cluster", 9), "used": AccountingColumn("Used", -10)}


@pytest.fixture(autouse=True)
def here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sreport_asked.ApiClient, "open", lambda: None)
    monkeypatch.setattr(sreport_asked.site, "load", lambda api: Site(cluster="lab"))


def test_columns_have_the_beginning_of_a_name_and_a_width() -> None:
    assert chosen_columns("CL,used%5", KNOWN) == [
        AccountingColumn("Cluster", 9, "cluster"),
        AccountingColumn("Used", 5, "used"),
    ]
    for form in ("", "x", "used%", "used,"):
        with pytest.raises(Usage, match="Unknown field"):
            chosen_columns(form, KNOWN)


def test_conditions_may_be_typed_in_part() -> None:
    found = asked("user", ["u=Ada,bob", "to=3", "g", "acc=LAB"], {})
    assert (found.names("users"), found.said["topcount"], found.flags) == ({"ada", "bob"}, "3", {"group"})
    assert found.names("accounts") == {"lab"}
    assert not found.wrong


def test_unknown_conditions_are_told_and_passed_over(capsys: pytest.CaptureFixture[str]) -> None:
    found = asked("cluster", ["users=ada", "nonsense"], {})
    assert found.wrong
    assert capsys.readouterr().err == " Unknown condition: users=ada\nUse keyword set to modify value\n"


@pytest.mark.parametrize(
    ("unit", "text"),
    [("seconds", "5400"), (None, "90"), ("hours", "2"), ("percent", "25.00%"), ("minper", "90(25.00%)")],
)
def test_amounts_in_the_unit_that_is_asked(unit: str | None, text: str) -> None:
    assert asked("cluster", [], {"t": unit}).amount(5400, 21600) == text


def test_nothing_of_nothing_is_no_percent() -> None:
    assert asked("cluster", [], {"t": "percent"}).amount(0, 0) == "0.00%"


def test_tres() -> None:
    assert tres_of({}) == ()
    assert tres_of({"tres": "ALL"}) == sreport_asked.TRES
    assert tres_of({"tres": "gres/gpu,foo,cpu"}) == ("cpu", "gres/gpu")
    with pytest.raises(Usage, match="No valid TRES given"):
        tres_of({"tres": ""})


def period(monkeypatch: pytest.MonkeyPatch, **said: str) -> Period:
    monkeypatch.setenv("TZ", "UTC")
    monkeypatch.setattr(sreport_asked.time, "time", lambda: 1_800_000_000.0)  # 2027-01-15 08:00:00
    found: ReportConditions = asked("cluster", [f"{name}={text}" for name, text in said.items()], {})
    return found.period


def test_a_period_has_full_hours_and_no_future(monkeypatch: pytest.MonkeyPatch) -> None:
    found = period(monkeypatch, start="2027-01-14T10:29:00", end="2027-01-14T11:31:00")
    assert found.until_s - found.since_s == 2 * 3600
    assert period(monkeypatch, start="2027-01-14", end="2028-01-01").until_s == 1_800_000_000.0
    backwards = period(monkeypatch, start="2027-01-14T10:00:00", end="2027-01-14T09:00:00")
    assert backwards.until_s - backwards.since_s == 3600
