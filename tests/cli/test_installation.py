"""`cli/cluster/live_state/installation.py`: read the settings and records of the scheduler from a cluster, or find no
scheduler."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from phalanx.cli.cluster.live_state.installation import past_runs_of, require_queues, settings_of_leader
from phalanx.client.connection import ApiRefusal
from phalanx.errors import PhalanxError
from phalanx.kube.read.labels import POLICY


class Server:
    """A server that refuses each request with `code`. With code 0 it has no queue, and a Lease with these
    annotations."""

    server = "https://c"

    def __init__(self, code: int = 0, **annotations: str) -> None:
        self.code, self.annotations = code, annotations

    async def list(self, *_: Any) -> Any:
        return self._answer({"items": []})

    async def get(self, *_: Any) -> Any:
        return self._answer({"metadata": {"annotations": self.annotations}})

    def _answer(self, found: Any) -> Any:
        if self.code:
            raise ApiRefusal(self.code, "Refused", "no")
        return found


def server(code: int = 0, **annotations: str) -> Any:
    return Server(code, **annotations)


async def test_a_cluster_that_knows_no_queues_has_no_phalanx() -> None:
    await require_queues(server())
    with pytest.raises(PhalanxError, match="Phalanx is not installed there"):
        await require_queues(server(404))
    with pytest.raises(ApiRefusal):
        await require_queues(server(403))


async def test_the_leader_writes_its_settings_on_the_lease() -> None:
    found = await settings_of_leader(server(**{POLICY: json.dumps({"defaultQueue": "q"})}))
    assert found.policy.default_queue == "q"
    for without in (server(404), server()):
        assert (await settings_of_leader(without)).policy.default_queue == "default"


def test_a_ledger_that_cannot_be_read_has_no_past_runs(tmp_path: Path) -> None:
    assert past_runs_of(None) == ()
    assert past_runs_of(f"sqlite:///{tmp_path}/missing.sqlite3") == ()
