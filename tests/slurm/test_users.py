"""Changes of users by sacctmgr."""

from __future__ import annotations

import os
import pwd

import pytest

from phalanx.slurm.cluster.site import Association, Site
from phalanx.slurm.commands.accounting.entities import users as changes
from phalanx.slurm.commands.accounting.entities.words import (
    SiteChange,
)
from phalanx.slurm.options import Usage
from tests.slurm.account_trees import MADE


def test_names_of_users_are_written_in_lower_case() -> None:
    upper = Site(users={"Alice": [Association(account="chem")]})
    assert [changes._meant(upper, name) for name in ("ALICE", "Alice", "NOSUCH", "ROOT")] == [
        "Alice", "Alice", "nosuch", "root",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "account", "out", "wrong"),
    [
        ("u1", "physics", " Modified users...\n  u1\n", ""),
        ("U1", "PHYSICS", " Modified users...\n  u1\n", ""),
        ("u1", "", "", "sacctmgr: error: You can not remove the default account of a user\n"
         " Error with request: You can not remove the default account of a user"),
        ("1001", "physics", " Nothing modified\n", ""),
        ("u2", "physics", "", "sacctmgr: error: Your user doesn't have privilege to perform this action\n Error with "
         "request: Access/permission denied"),
    ],
)  # fmt: skip
def test_a_user_may_ask_for_another_default_account(
    name: str, account: str, out: str, wrong: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    me = pwd.struct_passwd(("u1", "x", 1001, 1001, "", "/", "/bin/sh"))
    monkeypatch.setattr(os, "getuid", lambda: 1001)
    monkeypatch.setattr(pwd, "getpwuid", lambda uid: me)
    monkeypatch.setattr(SiteChange, "agreed", lambda self: False)
    asked = SiteChange(None, MADE, False)  # type: ignore[arg-type]  # nothing is committed
    told = ""
    try:
        changes.modify(asked, {"defaultaccount": account}, {}, [name])
    except Usage as error:
        told = error.text
    assert told == wrong
    assert capsys.readouterr().out == out
