"""Words of sacctmgr that a real Slurm 22.05 was seen to read, and its questions."""

from __future__ import annotations

import os

import pytest

from phalanx.client.access.kubeconfig import KubeconfigCluster, KubeconfigUser
from phalanx.slurm.accounts import tables
from phalanx.slurm.cluster.api import ApiClient
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
from tests.slurm.account_trees import SITE


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


def test_an_empty_name_is_the_name_of_nothing() -> None:
    assert names_of(*pairs(["name="]), "name") == [""]
    assert names_of(*pairs(["a,,b", ""]), "name") == ["a", "b", ""]
    assert not tables.users(SITE, [""], each=False)


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
    change = SiteChange(ApiClient(KubeconfigCluster(server="http://api"), KubeconfigUser()), SITE, immediate=False)
    assert change.agreed(question) == yes
    os.close(answers)
    assert capsys.readouterr().out == f"{question} (You have 30 seconds to decide)\n(N/y): \n{said}"
    assert SiteChange(change.api, SITE, immediate=True).agreed()
