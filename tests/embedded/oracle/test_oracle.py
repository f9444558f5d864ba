"""The embedded server answers as a real kube-apiserver did, step by step; the floors only rise.

Groups that need controllers (jobs, gc) are replayed against the server alone here, so their floors are what the
server itself decides: defaults, validation, status rules.
"""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from tests.embedded.apiserver.process import ServerProcess
from tests.embedded.oracle.replay import Server, load, replay

FLOORS: dict[str, int] = json.loads(Path(__file__).with_name("floors.json").read_text())
LIMITED = "the-token-of-the-limited-user"


@pytest.mark.slow
@pytest.mark.parametrize("group", sorted(FLOORS))
def test_group_matches_the_recording(api_server: ServerProcess, group: str) -> None:
    tokens = api_server.data / "tokens.csv"
    if LIMITED not in tokens.read_text():
        tokens.write_text(tokens.read_text() + f"{LIMITED},limited,limited,\n")
    server = Server(api_server.url, api_server.token, LIMITED, max_poll_s=1.0)
    results = asyncio.run(replay(server, load(group)))
    matched = [one for one in results if one.ok]
    missed = "\n".join(f"{one.case} {one.step}: {list(one.problems)[:2]}" for one in results if not one.ok)
    assert len(matched) >= FLOORS[group], f"{len(matched)} of {len(results)} steps match:\n{missed}"
