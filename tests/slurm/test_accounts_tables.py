"""Rows of accounts, users and associations."""

from __future__ import annotations

from phalanx.slurm.accounts import tables
from phalanx.slurm.cluster.site import Site
from tests.slurm.account_trees import MADE, SITE


def test_rows_of_associations() -> None:
    rows = tables.associations(SITE, [], [])
    assert [(row["account"], row.get("user", "")) for row in rows] == [
        ("root", ""), ("root", "root"), ("chem", ""), ("lab", ""), ("lab", "u1"),
    ]  # fmt: skip
    assert [depth for depth, _ in tables.in_tree(SITE, rows)] == [0, 1, 1, 2, 3]
    assert [row["qos"] for row in tables.associations(SITE, [], [], own=True)] == ["normal", "", "", "", "fast"]
    assert [one["account"] for one in tables.accounts(SITE, ["LAB"])] == ["lab"]


def test_the_newest_of_an_accounts_users_is_listed_first() -> None:
    rows = tables.accounts(MADE, ["physics", "sub"], each=True)
    assert [(row["account"], row.get("user", "")) for row in rows] == [
        ("physics", ""), ("physics", "u2"), ("physics", "u1"), ("sub", ""), ("sub", "u3"),
    ]  # fmt: skip
    assert [row["account"] for row in tables.accounts(MADE, [])] == ["aaa", "chem", "physics", "root", "sub"]


def test_associations_that_have_no_number_have_no_id() -> None:
    assert "id" not in tables.numbered(SITE, {"account": "lab", "user": "u1"})
    assert MADE.next_number() == 14
    assert Site().next_number() == 3
