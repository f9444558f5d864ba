"""Words, columns and questions of sacctmgr that a real Slurm 22.05 was seen to have."""

from __future__ import annotations

import os
import pwd

import pytest

from phalanx.client.access.kubeconfig import KubeconfigCluster, KubeconfigUser
from phalanx.slurm.accounts import tables
from phalanx.slurm.cluster.api import Api
from phalanx.slurm.cluster.site import Account, Association, Site
from phalanx.slurm.commands.accounting import sacctmgr
from phalanx.slurm.commands.accounting.entities import listed as lists
from phalanx.slurm.commands.accounting.entities import users as changes
from phalanx.slurm.commands.accounting.entities.columns import chosen, listed
from phalanx.slurm.commands.accounting.entities.words import (
    ARCHIVE,
    COMMIT,
    NO_UID,
    SURE,
    SiteChange,
    entity,
    names_of,
    pairs,
)
from phalanx.slurm.options import Usage

SITE = Site(
    accounts={"chem": Account(shares=60), "lab": Account(parent="chem")},
    users={"u1": [Association(account="lab", qos=["fast"])]},
)


@pytest.mark.parametrize(
    ("verb", "word", "meant"),
    [
        ("list", "a", ""), ("list", "ac", "account"), ("list", "co", "configuration"), ("list", "t", "transaction"),
        ("list", "tre", "tres"), ("list", "txn", "transaction"), ("list", "res", ""), ("list", "rese", "reservation"),
        ("add", "a", "account"), ("add", "accounts", ""), ("add", "co", "coordinator"), ("add", "users", ""),
        ("modify", "accounts", "account"), ("modify", "coord", ""), ("delete", "QOS", "qos"), ("delete", "job", ""),
    ],
)  # fmt: skip
def test_how_much_of_an_entity_must_be_typed(verb: str, word: str, meant: str) -> None:
    assert entity(verb, word) == meant


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


def test_rows_of_associations() -> None:
    rows = tables.associations(SITE, [], [])
    assert [(row["account"], row.get("user", "")) for row in rows] == [
        ("root", ""), ("root", "root"), ("chem", ""), ("lab", ""), ("lab", "u1"),
    ]  # fmt: skip
    assert [depth for depth, _ in tables.in_tree(SITE, rows)] == [0, 1, 1, 2, 3]
    assert [row["qos"] for row in tables.associations(SITE, [], [], own=True)] == ["normal", "", "", "", "fast"]
    assert [one["account"] for one in tables.accounts(SITE, ["LAB"])] == ["lab"]


MADE = Site(
    cluster="c",
    accounts={
        "physics": Account(number=3),
        "chem": Account(number=4),
        "sub": Account(number=8, parent="chem"),
        "aaa": Account(number=9),
    },
    users={
        "u1": [Association(account=name, number=at) for name, at in (("physics", 5), ("chem", 12), ("aaa", 13))],
        "u2": [Association(account="chem", number=6), Association(account="physics", number=7)],
        "u3": [Association(account="sub", number=10), Association(account="aaa", number=11)],
    },
)


@pytest.mark.parametrize(
    ("line", "rows"),
    [  # what a real Slurm 22.05 printed for associations that were made in the order of their numbers
        ("", "1|1|26|root| 2|24|25|root|root 9|2|7|aaa| 13|3|4|aaa|u1 11|5|6|aaa|u3 4|8|17|chem| 12|9|10|chem|u1 "
         "6|15|16|chem|u2 8|11|14|sub| 10|12|13|sub|u3 3|18|23|physics| 5|21|22|physics|u1 7|19|20|physics|u2"),
        ("wopi", "13|3|4|aaa|u1 11|5|6|aaa|u3 12|9|10|chem|u1 10|12|13|sub|u3 6|15|16|chem|u2 7|19|20|physics|u2 "
         "5|21|22|physics|u1 2|24|25|root|root 1|1|26|root| 9|2|7|aaa| 4|8|17|chem| 8|11|14|sub| 3|18|23|physics|"),
        ("user=U2,u3", "6|15|16|chem|u2 7|19|20|physics|u2 11|5|6|aaa|u3 10|12|13|sub|u3"),
        ("account=PHYSICS", "3|18|23|physics| 5|21|22|physics|u1 7|19|20|physics|u2"),
        ("parent=root tree", "9|2|7|aaa| 4|8|17|chem| 3|18|23|physics|"),
        ("parent= user=u1", "13|3|4|aaa|u1 12|9|10|chem|u1 5|21|22|physics|u1"),
    ],
)  # fmt: skip
def test_associations_are_in_the_order_of_their_creation(
    line: str, rows: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(Api, "open", lambda: None)
    monkeypatch.setattr(lists.site, "load", lambda api: MADE)
    lists.show(["assoc", "format=id,lft,rgt,account,user", *line.split()], {"noheader": None, "parsable2": None})
    assert capsys.readouterr().out.split() == rows.split()


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


def test_an_empty_name_is_the_name_of_nothing() -> None:
    assert names_of(*pairs(["name="]), "name") == [""]
    assert names_of(*pairs(["a,,b", ""]), "name") == ["a", "b", ""]
    assert not tables.users(SITE, [""], each=False)


@pytest.mark.parametrize(
    ("kind", "word", "told"),
    [("account", "pa=1", " Use keyword 'set' to modify value"), ("association", "a=1", " Unknown condition: a=1"),
     ("association", "chem", "Invalid value for AssocId (chem)"), ("qos", "x=1", "modify SLURM_PRINT_VALUE")],
)  # fmt: skip
def test_conditions_that_do_not_exist(kind: str, word: str, told: str) -> None:
    with pytest.raises(Usage) as error:
        lists._read(kind, [word])
    assert error.value.text.endswith(told)


@pytest.mark.parametrize(
    ("typed", "question", "yes", "said"),
    [
        ("y\n", COMMIT, True, ""),
        ("n\n", COMMIT, False, " Changes Discarded\n"),
        ("\n", SURE, False, "Aborted\n"),
        ("x\n", COMMIT, False, "Y or N please\n(N/y): \n Changes Discarded\n"),
        ("", COMMIT, False, " Changes Discarded\n"),
        ("n", ARCHIVE, False, " Changes Discarded\n"),
        ("n", f"{NO_UID} 'x'\n{SURE}", False, ""),
    ],
)
def test_a_change_is_committed_when_its_user_agrees(
    typed: str, question: str, yes: bool, said: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    answers, asked = os.pipe()
    os.write(asked, typed.encode())
    os.close(asked)
    monkeypatch.setattr("phalanx.slurm.commands.accounting.entities.words._INPUT", answers)
    change = SiteChange(Api(KubeconfigCluster(server="http://api"), KubeconfigUser()), SITE, immediate=False)
    assert change.agreed(question) == yes
    os.close(answers)
    assert capsys.readouterr().out == f"{question} (You have 30 seconds to decide)\n(N/y): \n{said}"
    assert SiteChange(change.api, SITE, immediate=True).agreed()


@pytest.mark.parametrize(
    ("words", "status", "text"),
    [(["archive", "dump"], 0, ""), (["-i", "archive", "dump"], 1, "Problem dumping archive: Access/permission denied")],
)
def test_an_archive_is_asked_for_and_denied(
    words: list[str], status: int, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sacctmgr.Api, "open", lambda: None)
    monkeypatch.setattr(sacctmgr.site, "load", lambda api: SITE)
    monkeypatch.setattr(sacctmgr, "is_administrator", lambda here: False)
    monkeypatch.setattr("phalanx.slurm.commands.accounting.entities.words._is_yes", lambda question: False)
    if not status:
        assert sacctmgr.run(words) == 0
        return
    with pytest.raises(Usage, match=text):
        sacctmgr.run(words)


@pytest.mark.parametrize(
    ("option", "printed"),
    [
        ("parsable", "Federation|Cluster|ID|Features|FedState|\n"),
        ("parsable2", "Federation|Cluster|ID|Features|FedState\n"),
    ],
)
def test_federations_have_names_between_bars(
    option: str, printed: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(Api, "open", lambda: None)
    monkeypatch.setattr(lists.site, "load", lambda api: SITE)
    assert lists.show(["federation"], {option: None}) == 0
    assert capsys.readouterr().out == printed
