"""Words, columns and questions of sacctmgr that a real Slurm 22.05 was seen to have."""

from __future__ import annotations

import os

import pytest

from phalanx.client.access.kubeconfig import KubeconfigCluster, KubeconfigUser
from phalanx.slurm.accounts import tables
from phalanx.slurm.cluster.api import Api
from phalanx.slurm.cluster.site import Account, Association, Site
from phalanx.slurm.commands.accounting import sacctmgr
from phalanx.slurm.commands.accounting.entities import listed as lists
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
    assert [row["account"] for row in tables.indented(SITE, rows)] == ["root", " root", " chem", "  lab", "   lab"]
    assert [row["qos"] for row in tables.associations(SITE, [], [], own=True)] == ["normal", "", "", "", "fast"]
    assert [one["account"] for one in tables.accounts(SITE, ["LAB"])] == ["lab"]


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
