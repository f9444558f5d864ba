"""The embedded Kubernetes answers as a real kube-apiserver did, step by step; the floors only rise.

The server runs with its controllers, as the recorded one did, in processes of their own.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.embedded.apiserver.process import ServerProcess
from tests.embedded.oracle.replay import Server, load, replay

FLOORS: dict[str, int] = json.loads(Path(__file__).with_name("floors.json").read_text())
LIMITED = "the-token-of-the-limited-user"
MAX_POLL_S = 60.0


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """A server of its own, with the recorded one's second user, and the controllers."""
    data = tmp_path_factory.mktemp("oracle")
    with ServerProcess.started(data) as server:
        with (data / "tokens.csv").open("a") as tokens:
            tokens.write(f"{LIMITED},limited,limited,\n")
        command = [sys.executable, "-m", "phalanx.embedded.controllers", "--kubeconfig", str(server.kubeconfig)]
        controllers = subprocess.Popen(command)
        yield server
        controllers.terminate()
        controllers.wait()


@pytest.mark.slow
@pytest.mark.parametrize("group", sorted(FLOORS))
def test_group_matches_the_recording(cluster: ServerProcess, group: str) -> None:
    server = Server(cluster.url, cluster.token, LIMITED, max_poll_s=MAX_POLL_S)
    results = asyncio.run(replay(server, load(group)))
    matched = [one for one in results if one.ok]
    missed = "\n".join(f"{one.case} {one.step}: {list(one.problems)[:2]}" for one in results if not one.ok)
    assert len(matched) >= FLOORS[group], f"{len(matched)} of {len(results)} steps match:\n{missed}"
