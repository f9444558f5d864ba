"""A user with many expensive requests does not delay other users."""

from __future__ import annotations

import asyncio
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from phalanx.embedded.apimachinery.fair_queue import _QUEUE_MOST, FairQueue, FlowAccount, TooManyRequests
from phalanx.embedded.apiserver.auth.authentication import write_tokens
from tests.embedded.apiserver.inprocess import InProcess


class Clock:
    """It goes on by what requests say that they take, and by nothing else."""

    def __init__(self) -> None:
        self.now_s = 1000.0

    def __call__(self) -> float:
        return self.now_s


async def dear(queue: FairQueue, done: list[str], name: str) -> str:
    """A request that holds the loop for a while, in two steps."""
    assert isinstance(queue._clock, Clock)
    for _ in range(2):
        queue._clock.now_s += 0.02
        await asyncio.sleep(0)
    done.append(name)
    return name


async def cheap(done: list[str], name: str) -> str:
    await asyncio.sleep(0)
    done.append(name)
    return name


async def used_up(queue: FairQueue, user: str) -> None:
    for _ in range(4):
        await queue.run(user, dear(queue, [], user))


def test_others_wait_for_one_dear_request_not_for_all() -> None:
    async def run() -> None:
        queue, done = FairQueue(Clock()), list[str]()
        await used_up(queue, "greedy")
        greedy = [asyncio.create_task(queue.run("greedy", dear(queue, done, "greedy"))) for _ in range(30)]
        await asyncio.sleep(0)
        assert await queue.run("modest", cheap(done, "modest")) == "modest"
        assert done.index("modest") <= 2
        assert [await one for one in greedy] == ["greedy"] * 30

    asyncio.run(run())


def test_of_those_who_wait_the_one_who_has_used_the_least_is_next() -> None:
    async def run() -> None:
        queue, done = FairQueue(Clock()), list[str]()
        for _ in range(3):
            await used_up(queue, "most")
        await used_up(queue, "less")
        users = ["most"] * 5 + ["less"] * 5
        await asyncio.gather(*(queue.run(user, cheap(done, user)) for user in users))
        assert done == ["less"] * 5 + ["most"] * 5

    asyncio.run(run())


def test_a_queue_has_an_end() -> None:
    async def run() -> None:
        queue, done = FairQueue(Clock()), list[str]()
        await used_up(queue, "greedy")
        sent = [asyncio.create_task(queue.run("greedy", cheap(done, "x"))) for _ in range(_QUEUE_MOST + 10)]
        found = await asyncio.gather(*sent, return_exceptions=True)
        assert sum(isinstance(one, TooManyRequests) for one in found) == 10
        assert len(done) == _QUEUE_MOST

    asyncio.run(run())


def test_what_was_used_is_forgotten() -> None:
    account = FlowAccount()
    account.add(2.0, 100.0)
    assert account.used_s(100.0) == 2.0
    assert account.used_s(105.0) == pytest.approx(2.0 / 2.718, rel=0.01)
    assert account.used_s(1000.0) < 1e-6


def test_a_request_that_is_given_up_ends_and_the_others_go_on() -> None:
    async def run() -> None:
        queue, ended = FairQueue(Clock()), list[str]()

        async def stuck() -> None:
            try:
                await asyncio.Event().wait()
            finally:
                ended.append("stuck")

        task = asyncio.create_task(queue.run("one", stuck()))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert ended == ["stuck"]
        await used_up(queue, "one")
        waiting = asyncio.create_task(queue.run("one", cheap([], "never")))
        await asyncio.sleep(0)
        waiting.cancel()
        assert await queue.run("one", cheap([], "next")) == "next"

    asyncio.run(run())


@pytest.mark.slow
def test_one_tokens_lists_do_not_hold_up_anothers_reads(tmp_path: Path) -> None:
    tokens = tmp_path / "tokens.csv"
    write_tokens(tokens, [("admin", "admin", ("system:masters",)), ("greedy", "greedy", ()), ("modest", "modest", ())])
    role = {"apiVersion": "rbac.authorization.k8s.io/v1", "metadata": {"name": "read"}}
    rules = [{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "list"]}]
    bound = [{"kind": "User", "name": name, "apiGroup": "rbac.authorization.k8s.io"} for name in ("greedy", "modest")]
    path = "/api/v1/namespaces/default/configmaps"

    async def run() -> None:
        async with InProcess.started(tmp_path) as api:
            rbac = "/apis/rbac.authorization.k8s.io/v1"
            await api.make(f"{rbac}/clusterroles", {**role, "rules": rules})
            reference = {"kind": "ClusterRole", "name": "read", "apiGroup": "rbac.authorization.k8s.io"}
            binding = {"metadata": {"name": "read"}, "roleRef": reference, "subjects": bound}
            await api.make(f"{rbac}/clusterrolebindings", binding)
            for number in range(60):
                meta = {"name": f"c{number}", "labels": {"a": "b"}}
                await api.make(path, {"metadata": meta, "data": {"x": "x" * 20_000}})
            greedy, modest = (InProcess(api.api, token) for token in tokens_of(tokens, "greedy", "modest"))
            done: list[str] = []
            api.api._turns._clock = time.process_time  # which a pause of this process does not move

            async def ask(who: InProcess, what: str, name: str) -> None:
                request = who.request("GET", what)
                response = await who.api(request)
                assert response.code == 200
                done.append(name)

            for _ in range(20):
                await ask(greedy, path + "?labelSelector=a%3Db", "before")
            while greedy.api._turns._account("greedy").used_s(time.process_time()) < 0.2:
                await ask(greedy, path, "before")
            done.clear()
            await asyncio.gather(*(ask(greedy, path, "greedy") for _ in range(40)), ask(modest, f"{path}/c1", "modest"))
            assert done.index("modest") <= 2

    asyncio.run(run())


def test_service_accounts_of_a_namespace_wait_for_each_other_and_not_for_those_of_another(tmp_path: Path) -> None:
    tokens = tmp_path / "tokens.csv"
    names = [f"system:serviceaccount:{place}" for place in ("ada:one", "ada:two", "bob:one")]
    write_tokens(tokens, [("admin", "admin", ("system:masters",)), *((name, name, ()) for name in (*names, "ada"))])

    async def run() -> None:
        async with InProcess.started(tmp_path) as api:
            known = list[tuple[str, bool]]()
            for token in tokens_of(tokens, *names, "ada", "admin"):
                request = replace(
                    InProcess(api.api, token).request("GET", "/version"), known=lambda *who: known.append(who)
                )
                assert (await api.api(request)).code == 200
            ada, bob = "system:serviceaccount:ada", "system:serviceaccount:bob"
            assert known == [(ada, True), (ada, True), (bob, True), ("ada", True), ("admin", False)]
            assert api.api._turns._accounts.keys() == {ada, bob, "ada"}

    asyncio.run(run())


def tokens_of(path: Path, *users: str) -> list[Any]:
    rows = [line.split(",") for line in path.read_text().splitlines()]
    return [next(row[0] for row in rows if row[1] == user) for user in users]
