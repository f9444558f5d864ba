"""Answers that get lost, before or after the server did what it was asked: nothing is done twice."""

from __future__ import annotations

import random
from typing import Any

import pytest

from phalanx.client.connection import ApiUnknown, Connection
from phalanx.embedded.controllers.operators.install import install_operators
from tests.embedded.apiserver.process import ServerProcess
from tests.embedded.controllers.cluster import Cluster, controllers, scenario


class Unreliable(Connection):
    """Every third write, on average, is not answered; half of those happen all the same."""

    chance = random.Random(0)

    async def request(self, method: str, path: str, **how: Any) -> Any:
        lost = method != "GET" and self.chance.random() < 0.33
        if lost and self.chance.random() < 0.5:
            raise ApiUnknown("lost on the way there")
        answer = await super().request(method, path, **how)
        if lost:
            raise ApiUnknown("lost on the way back")
        return answer


@pytest.mark.slow
@pytest.mark.parametrize("seed", [3, 1, 2])
def test_each_pod_is_created_and_counted_once(api_server: ServerProcess, seed: int) -> None:
    async def play(here: Cluster) -> None:
        async with await Unreliable.open(api_server.kubeconfig) as connection, controllers(connection):
            connection.chance = random.Random(seed)  # type: ignore[attr-defined]  # open() makes one of its own class
            await here.job(parallelism=6, completions=6)
            await here.status("j", active=6)
            for pod in await here.pods(6):
                await here.end(pod)
            status = await here.ended()
        assert (status["last"], status["succeeded"]) == ("Complete CompletionsReached", 6)
        assert len(await here.pods(6)) == 6

    scenario(api_server, play, settings=None)


class Losing(Connection):
    """The first two writes are not answered: one does not arrive, the other does."""

    ways: list[str]

    async def request(self, method: str, path: str, **how: Any) -> Any:
        way = self.ways.pop() if method != "GET" and self.ways else ""
        if way == "there":
            raise ApiUnknown("lost on the way there")
        try:
            return await super().request(method, path, **how)
        finally:
            if way:
                raise ApiUnknown("lost on the way back")


def test_the_first_that_the_controllers_write_may_get_lost(api_server: ServerProcess) -> None:
    async def play(here: Cluster) -> None:
        async with await Losing.open(api_server.kubeconfig) as connection:
            connection.ways = ["back", "there"]
            await install_operators(connection)
            assert not connection.ways

    scenario(api_server, play, settings=None)
