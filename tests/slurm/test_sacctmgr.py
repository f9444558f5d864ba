"""sacctmgr archive, in the words of Slurm 22.05."""

from __future__ import annotations

import pytest

from phalanx.slurm.commands.accounting import sacctmgr
from phalanx.slurm.options import Usage
from tests.slurm.account_trees import SITE


@pytest.mark.parametrize(
    ("words", "status", "text"),
    [(["archive", "dump"], 0, ""), (["-i", "archive", "dump"], 1, "Problem dumping archive: Access/permission denied")],
)
def test_an_archive_is_asked_for_and_denied(
    words: list[str], status: int, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sacctmgr.ApiClient, "open", lambda: None)
    monkeypatch.setattr(sacctmgr.site, "load", lambda api: SITE)
    monkeypatch.setattr(sacctmgr, "is_administrator", lambda here: False)
    monkeypatch.setattr("phalanx.slurm.commands.accounting.entities.words._is_yes", lambda question: False)
    if not status:
        assert sacctmgr.run(words) == 0
        return
    with pytest.raises(Usage, match=text):
        sacctmgr.run(words)
