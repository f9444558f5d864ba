"""sshare as a real Slurm 22.05 printed it (golden/): the same tree, and what was charged there, decayed by a little."""

from __future__ import annotations

from pathlib import Path

import pytest

from phalanx.slurm.accounts.tree import tree
from phalanx.slurm.cluster.site import Account, Association, Site
from phalanx.slurm.commands.accounting import sshare

GOLDEN = Path(__file__).parent / "golden"
COLUMNS = "Account,User,RawShares,NormShares,RawUsage,NormUsage,EffectvUsage,FairShare,LevelFS"
DECAYED = 1 - 1e-5

FIRST = {"a": Account(shares=40), "b": Account(shares=60)}
SECOND = {
    **FIRST,
    "c": Account(shares=20),
    "c1": Account(shares=2, parent="c"),
    "c2": Account(shares=2, parent="c"),
    "d": Account(shares=30),
    "e": Account(shares=0),
}
USERS = {
    "root": [Association(account="root")],
    "a1": [Association(account="a")],
    "a2": [Association(account="a", shares=3)],
    "b1": [Association(account="b")],
    "b2": [Association(account="b")],
}
MORE = {
    "c1": [Association(account="c1", shares=5)],
    "c2": [Association(account="c2")],
    "c3": [Association(account="c", shares=4)],
    "d1": [Association(account="d", shares=-1)],
    "d2": [Association(account="d", shares=-1)],
    "e1": [Association(account="e")],
}
USED_1 = {("a", "a1"): 800.0, ("a", "a2"): 320.0, ("b", "b1"): 200.0, ("b", "b2"): 600.0}
USED_2 = {
    **USED_1, ("c1", "c1"): 80.0, ("c2", "c2"): 80.0, ("c", "c3"): 159.99, ("d", "d1"): 120.0, ("d", "d2"): 40.0,
    ("e", "e1"): 20.0,
}  # fmt: skip
USED_4 = {("b", "b1"): 300.0, ("c1", "c1"): 80.0, ("c2", "c2"): 80.0, ("c", "c3"): 160.0}


@pytest.mark.parametrize(
    ("name", "accounts", "users", "used"),
    [
        ("1", FIRST, USERS, USED_1),
        ("2_nested", SECOND, USERS | MORE, USED_2),
        ("3_allzero", SECOND, USERS | MORE, {}),
        ("4_exacttie", SECOND, USERS | MORE, USED_4),
    ],
)
def test_a_real_slurms_tree(
    name: str,
    accounts: dict[str, Account],
    users: dict[str, list[Association]],
    used: dict[tuple[str, str], float],
    capsys: pytest.CaptureFixture[str],
) -> None:
    root = tree(Site(accounts=accounts, users=users), {key: amount * DECAYED for key, amount in used.items()})
    columns = [(column, 10) for column in COLUMNS.split(",")]
    sshare.show(columns, list(sshare.lines(root)), {"parsable2": None})
    printed = capsys.readouterr().out.splitlines()
    expected = (GOLDEN / f"slurm_sshare_fairtree_{name}_cols.txt").read_text().splitlines()
    wrong = [(mine, theirs) for mine, theirs in zip(printed, expected, strict=True) if not alike(mine, theirs)]
    assert wrong == []


def alike(mine: str, theirs: str) -> bool:
    """Equal; but for what was used, whose third digit hangs on when each job of the recording ended."""
    if mine == theirs:
        return True
    for column, own, other in zip(COLUMNS.split(","), mine.split("|"), theirs.split("|"), strict=True):
        tolerance = {"NormUsage": 1e-3, "EffectvUsage": 1e-3, "LevelFS": 2e-3, "RawUsage": 1.0}.get(column, 0.0)
        if own != other and (not own or not other or abs(float(own) - float(other)) > tolerance):
            return False
    return True
