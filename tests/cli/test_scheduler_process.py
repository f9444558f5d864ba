"""`cli/commands/in_cluster/scheduler_process.py`: the connections and the Lease of one scheduler."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any

import pytest

from phalanx.cli.commands.in_cluster import scheduler_process
from phalanx.cli.files.policy_file import settings_of
from phalanx.kube.install.admission_policy import AdmissionMode


def test_only_a_cluster_with_admission_is_noted(capsys: pytest.CaptureFixture[str]) -> None:
    scheduler_process._say(AdmissionMode.NEITHER)
    assert capsys.readouterr().err == ""
    scheduler_process._say(AdmissionMode.POLICY)
    assert AdmissionMode.POLICY.value in capsys.readouterr().err


def test_the_lease_fences_all_writes_but_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    fences: list[Any] = []
    connection: Any = SimpleNamespace(server="https://c", tally=object(), fence=fences.append)
    apart: Any = SimpleNamespace(server="https://c", tally=object())
    scheduled: list[Any] = []

    @asynccontextmanager
    async def monitored(*_: Any) -> Any:
        yield None

    async def schedule(*words: Any, **_: Any) -> None:
        scheduled.append(words)

    async def provisioning(*_: Any) -> None:
        return None

    monkeypatch.setattr(scheduler_process, "monitored", monitored)
    monkeypatch.setattr(scheduler_process, "schedule", schedule)
    monkeypatch.setattr(scheduler_process, "provisioning", provisioning)
    asyncio.run(scheduler_process._serve(connection, apart, settings_of(None), None, None, None, ()))
    [(used, _, lease, *_)] = scheduled
    assert used is connection
    assert fences == [lease.fence]
    assert apart.tally is connection.tally
