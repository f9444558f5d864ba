"""QOS: added, changed and deleted by sacctmgr."""

from __future__ import annotations

from typing import Any

import pytest

from phalanx.slurm.cluster.site import Qos, Site
from phalanx.slurm.commands.accounting.entities import qos
from phalanx.slurm.commands.accounting.entities.words import DENIED, NOTHING, NOTHING_DELETED, SiteChange
from phalanx.slurm.options import Usage


class Made:
    """A site that notes when it is stored."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *, is_allowed: bool = True) -> None:
        self.site = Site(qos={"normal": Qos(), "fast": Qos(priority=5)})
        self.stored = 0
        monkeypatch.setattr(qos.site, "store", self._store)
        monkeypatch.setattr(
            "phalanx.slurm.commands.accounting.entities.words.is_administrator", lambda here: is_allowed
        )

    def _store(self, api: Any, here: Site) -> None:
        self.stored += 1

    @property
    def asked(self) -> SiteChange:
        return SiteChange(None, self.site, True)  # type: ignore[arg-type]  # no server is asked


def test_a_qos_is_added_with_its_settings(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    made = Made(monkeypatch)
    assert qos.add(made.asked, {"priority": "7", "description": "nightly"}, ["night", "fast"]) == 0
    assert (made.site.qos["night"].priority, made.site.qos["night"].description) == (7, "nightly")
    assert made.site.qos["fast"].priority == 5, "one that exists stays as it is"
    assert made.stored == 1
    assert " Adding QOS(s)\n  night\n Settings\n  Description    = nightly\n" in capsys.readouterr().out


def test_nothing_is_added_twice_and_nothing_without_a_name(monkeypatch: pytest.MonkeyPatch) -> None:
    made = Made(monkeypatch)
    assert qos.add(made.asked, {}, ["fast"]) == 1
    with pytest.raises(Usage, match="Need name of qos to add"):
        qos.add(made.asked, {}, [])
    assert made.stored == 0


def test_a_change_is_of_those_that_exist(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    made = Made(monkeypatch)
    assert qos.modify(made.asked, {"priority": "9"}, ["fast", "none"]) == 0
    assert made.site.qos["fast"].priority == 9
    assert capsys.readouterr().out == " Modified qos...\n  fast\n"
    assert qos.modify(made.asked, {"priority": "9"}, ["none"]) == 1
    assert capsys.readouterr().out == NOTHING + "\n"
    assert made.stored == 1


def test_a_wrong_value_is_refused_also_for_a_qos_that_does_not_exist(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(Usage):
        qos.modify(Made(monkeypatch).asked, {"priority": "high"}, ["none"])


def test_normal_is_not_deleted(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    made = Made(monkeypatch)
    assert qos.delete(made.asked, ["normal", "none"]) == 1
    assert capsys.readouterr().out == NOTHING_DELETED + "\n"
    assert qos.delete(made.asked, ["normal", "fast"]) == 0
    assert (list(made.site.qos), made.stored) == (["normal"], 1)


def test_others_than_administrators_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    made = Made(monkeypatch, is_allowed=False)
    with pytest.raises(Usage) as raised:
        qos.delete(made.asked, ["fast"])
    assert raised.value.text == DENIED
    with pytest.raises(Usage, match="Access/permission denied"):
        qos.add(made.asked, {}, ["night"])
    assert (list(made.site.qos), made.stored) == (["normal", "fast"], 0)
