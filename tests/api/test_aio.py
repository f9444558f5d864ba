"""`api/aio.py`: the calls as coroutines, within a loop."""

from __future__ import annotations

import asyncio

import pytest

import phalanx
from tests.cli.upstart import Up


@pytest.fixture
def up(shared_up: Up) -> Up:
    return shared_up


@pytest.fixture
def cluster(up: Up) -> phalanx.Cluster:
    return phalanx.Cluster(kubeconfig=up.data / "kubeconfig", namespace="default")


@pytest.mark.slow
def test_calls_wait_within_a_loop_and_as_coroutines(up: Up, cluster: phalanx.Cluster) -> None:
    """A notebook has a running loop."""

    async def scene() -> None:
        made = await phalanx.aio.submit(["sh", "-c", "exit 7"], name="seven", cluster=cluster)
        ends = await asyncio.gather(*(phalanx.aio.wait(made, cluster=cluster) for _ in range(2)))
        assert [end.exit_code for end in ends] == [7, 7]
        assert phalanx.wait(made, cluster=cluster).exit_code == 7

    asyncio.run(scene())
