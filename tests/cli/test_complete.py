"""`cli/commands/work/complete.py`: `phalanx complete -- WORDS`."""

from __future__ import annotations

from pathlib import Path

import pytest

from phalanx.cli.commands.work.complete import candidates
from phalanx.client.connection import Connection
from phalanx.client.kind import JOBS, NAMESPACES
from phalanx.kube.install.definitions import install
from tests.embedded.apiserver.process import ServerProcess


async def test_commands_and_options_need_no_cluster(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("KUBECONFIG", raising=False)
    assert {"logs", "cancel"} <= await candidates(["lo"])
    assert {"logs", "cancel"} <= await candidates([])
    assert {"--follow", "--since", "--namespace"} <= await candidates(["logs", "train", "--"])
    assert await candidates(["logs", "tr"]) == set()
    assert await candidates(["submit", "tr"]) == set()
    assert await candidates(["queue", "e"]) == {"create", "edit", "drain", "delete"}
    assert {"--limit", "--dry-run"} <= await candidates(["queue", "edit", "research", "--"])
    assert await candidates(["queue", "edit", "research", "--state", ""]) == {"open", "held", "draining", "closed"}
    assert {"running", "stuck", "failed"} <= await candidates(["jobs", "--state", "r"])
    assert await candidates(["run", "--", "ls", "--"]) == set()
    assert await candidates(["nonsense", "tr"]) == set()


async def test_names_of_jobs_and_queues_are_those_of_the_cluster(
    api_server: ServerProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KUBECONFIG", str(api_server.kubeconfig))
    monkeypatch.setattr("phalanx.cli.commands.work.complete.current_namespace", lambda environment: "completed")
    async with await Connection.open(api_server.kubeconfig) as connection:
        await connection.create(NAMESPACES, {"metadata": {"name": "completed"}})
        await install(connection)
        template = {"spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": "x"}]}}
        job = {"metadata": {"name": "train"}, "spec": {"suspend": True, "template": template}}
        await connection.create(JOBS, {"apiVersion": "batch/v1", "kind": "Job", **job}, "completed")
    assert await candidates(["logs", "tr"]) == {"train"}
    assert await candidates(["cancel", "train", ""]) == {"train"}
    assert await candidates(["logs", "-n", "default", "tr"]) == set()
    assert "completed" in await candidates(["logs", "-n", "com"])
    assert await candidates(["submit", "--after", "tr"]) == {"train"}
    assert await candidates(["queue", "drain", "d"]) == {"default"}
    assert "default" in await candidates(["submit", "-q", "d"])
