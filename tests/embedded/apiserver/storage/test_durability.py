"""kill -9 under load, at random moments: all acknowledged writes exist after the next start, complete and in order."""

from __future__ import annotations

import asyncio
import random
import ssl
from pathlib import Path

import aiohttp
import pytest

from tests.embedded.apiserver.process import ServerProcess

WRITERS = 8
ENOUGH = 20  # objects acknowledged before the kill, at least


async def write_until_killed(server: ServerProcess, run: int, after_s: float) -> dict[str, int]:
    """Create and update objects from several connections until the server is killed: name -> last acknowledged."""
    acknowledged: dict[str, int] = {}
    enough = asyncio.Event()
    tls = ssl.create_default_context(cafile=str(server.ca))
    headers = {"Authorization": f"Bearer {server.token}"}
    url = f"{server.url}/api/v1/namespaces/default/configmaps"

    async def work(session: aiohttp.ClientSession, writer: int) -> None:
        for number in range(100_000):
            name = f"run{run}-{writer}-{number // 3}"
            body = {"metadata": {"name": name}, "data": {"n": str(number), "padding": "x" * random.randint(0, 3000)}}
            call = session.post(url, json=body) if number % 3 == 0 else session.put(f"{url}/{name}", json=body)
            async with call as response:
                assert response.status in (200, 201), await response.text()
                await response.read()
            acknowledged[name] = number
            if len(acknowledged) > ENOUGH:
                enough.set()

    async with aiohttp.ClientSession(headers=headers, connector=aiohttp.TCPConnector(ssl=tls)) as session:
        tasks = [asyncio.ensure_future(work(session, writer)) for writer in range(WRITERS)]
        await asyncio.wait_for(enough.wait(), 120)
        await asyncio.sleep(after_s)
        server.process.kill()
        found = await asyncio.gather(*tasks, return_exceptions=True)
    assert all(isinstance(one, aiohttp.ClientError | ConnectionError) for one in found), found
    server.process.communicate()
    return acknowledged


def check_all_there(server: ServerProcess, acknowledged: dict[str, int]) -> None:
    items = server.ask("GET", "/api/v1/namespaces/default/configmaps").body["items"]
    present = {one["metadata"]["name"]: int(one["data"]["n"]) for one in items if "n" in (one.get("data") or {})}
    missing = [name for name, number in acknowledged.items() if present.get(name, -1) < number]
    assert not missing, f"acknowledged and gone: {missing[:5]}"
    assert len(acknowledged) > ENOUGH


def kill_and_check(data: Path, kills: int, seed: int, *, longest_s: float = 0.5) -> None:
    random.seed(seed)
    acknowledged: dict[str, int] = {}
    last_version = 0
    for run in range(kills):
        server = ServerProcess.start(data)
        acknowledged |= asyncio.run(write_until_killed(server, run, random.uniform(0, longest_s)))
        with ServerProcess.started(data) as again:
            check_all_there(again, acknowledged)
            listed = again.ask("GET", "/api/v1/namespaces/default/configmaps?limit=1").body
            assert int(listed["metadata"]["resourceVersion"]) > last_version
            last_version = int(listed["metadata"]["resourceVersion"])


@pytest.mark.slow
def test_an_acknowledged_write_survives_kill_9(data_dir: Path) -> None:
    kill_and_check(data_dir, kills=1, seed=1, longest_s=0.1)


@pytest.mark.long
def test_acknowledged_writes_survive_many_kills_at_random_moments(data_dir: Path) -> None:
    kill_and_check(data_dir, kills=5, seed=2)
