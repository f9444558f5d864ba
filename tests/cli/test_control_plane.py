"""`cli/commands/one_machine/control_plane.py`: the Lease, the policy and the dialects of `phalanx up`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from phalanx.cli.commands.one_machine import control_plane as module
from phalanx.cli.local.local_cluster import LocalMachines


def test_every_pod_is_bound_here() -> None:
    assert module._is_bound_here({})
    assert module._is_bound_here({"schedulerName": "default-scheduler"})


def test_the_lease_is_renewed_well_before_it_ends() -> None:
    terms = module.TERMS
    assert terms.retry_s < terms.renew_s < terms.lease_s


def test_all_dialects_are_enabled_and_the_policy_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found: list[Any] = []
    monkeypatch.setattr(module, "_serve", lambda *words: found.append(words))
    monkeypatch.setattr(module.uvloop, "run", lambda work: None)
    monkeypatch.setattr(module.gc, "set_threshold", lambda *_: None)
    monkeypatch.setattr(module, "log_to_stderr", lambda level: None)
    (tmp_path / "policy.yaml").write_text("backfill: greedy\n")
    module.control_plane(data=tmp_path, policy=tmp_path / "policy.yaml", metrics_address="127.0.0.1:9")
    [(directory, settings, machines, record, where)] = found
    assert (directory.path, machines, record, where) == (tmp_path, LocalMachines(), None, ("127.0.0.1", 9))
    assert settings.policy.backfill == "greedy"
    assert settings.dialects == module.DIALECTS
