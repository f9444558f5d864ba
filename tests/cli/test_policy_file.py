"""`--policy FILE`: errors in the file are reported with their line, before anything starts."""

from __future__ import annotations

from pathlib import Path

import pytest

from phalanx.cli.files.placed_file import read_placed
from phalanx.cli.files.policy_file import settings_from, settings_of
from phalanx.dialects.kueue.tree.configuration import configuration
from phalanx.errors import PhalanxError
from phalanx.model.policy import Backfill, Policy, ScoringStrategy


def test_a_file_is_read_and_the_option_wins(tmp_path: Path) -> None:
    file = tmp_path / "policy.yaml"
    file.write_text("backfill: greedy\nscore: spread\ndefaultQueue: lab\n")
    assert settings_of(file).policy == Policy(
        backfill=Backfill.GREEDY, score=ScoringStrategy.SPREAD, default_queue="lab"
    )
    assert settings_of(file, "other").policy.default_queue == "other"
    assert settings_of(None).policy == Policy()


def test_what_one_process_says_another_decides_by(tmp_path: Path) -> None:
    file = tmp_path / "policy.yaml"
    file.write_text("topologies: [{levels: [zone, rack]}]\nfactors: {age: 2, maxAge: 1d}\n")
    assert settings_from(settings_of(file).text()) == settings_of(file)
    assert settings_from("").policy == settings_from("nonsense").policy == Policy()
    assert settings_of(None).text() == ""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("score: pack\nbackfil: easy\n", ":2: backfil: there is no such field; did you mean backfill?"),
        ("factors:\n  age: 1\n  size: big\n", ":3: factors.size: 'big' is not a number of at least 0"),
        (
            "topologies:\n- levels: [a]\n- levels: []\n",
            ":3: topologies[1].levels: a topology must have at least one level",
        ),
        ("- a\n", ":1: ['a'] is not a mapping of names to values"),
        ("a: [\n", " is not YAML: while parsing"),
        ("[" * 5000, " is not YAML: maximum recursion depth exceeded"),
    ],
)
def test_a_mistake_is_told_with_its_line(tmp_path: Path, text: str, complaint: str) -> None:
    file = tmp_path / "policy.yaml"
    file.write_text(text)
    with pytest.raises(PhalanxError) as raised:
        settings_of(file)
    assert f"{file}{complaint}" in str(raised.value)


def test_a_file_that_is_not_there_is_said(tmp_path: Path) -> None:
    with pytest.raises(PhalanxError, match="cannot be read"):
        settings_of(tmp_path / "nothing.yaml")


def test_lists_in_lists_without_end_end_no_process(tmp_path: Path) -> None:
    (file := tmp_path / "deep.yaml").write_text("[" * 100_000)
    with pytest.raises(PhalanxError, match=r"deep\.yaml: this is not YAML: lists and mappings are nested more"):
        read_placed(file, lambda said: said)
    meta, data = {"namespace": "kueue-system", "name": "kueue-manager-config"}, file.read_text()
    found = {"kueue-system/kueue-manager-config": {"metadata": meta, "data": {"controller_manager_config.yaml": data}}}
    assert "nested more than 200 levels" in configuration(found).fault
