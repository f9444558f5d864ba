"""`endpoints/reconcilers/quota_usage.py`: the usage in the status of ResourceQuotas, counted after writes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from phalanx.embedded.apimachinery.meta.status import StatusError
from phalanx.embedded.apiserver.admission import resource_quota
from phalanx.embedded.apiserver.endpoints.reconcilers import quota_usage
from tests.embedded.apiserver.inprocess import InProcess, Scene, played


@pytest.fixture(scope="module")
def play(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[Scene], None]]:
    with pytest.MonkeyPatch.context() as patch, played(tmp_path_factory.mktemp("api")) as playing:
        patch.setattr(quota_usage, "_PAUSE_S", 0.0)
        yield playing


@pytest.fixture
def a(request: pytest.FixtureRequest) -> str:
    """The name of a namespace that only this test uses."""
    return f"a{abs(hash(request.node.name)) % 10**9}"


async def counted(server: InProcess) -> None:
    """Wait until the usage is counted after the last write."""
    while (task := server.api.engine.quota_usage._task) is not None:
        await asyncio.wait([task])
        await asyncio.sleep(0)


async def space(server: InProcess, name: str, **hard: str) -> None:
    """Create a namespace with a quota `q`."""
    await server.make("/api/v1/namespaces", {"metadata": {"name": name}})
    limits = {key.replace("_", "."): text for key, text in hard.items()}
    await server.make(path(name, "resourcequotas"), {"metadata": {"name": "q"}, "spec": {"hard": limits}})


def path(namespace: str, plural: str, name: str = "") -> str:
    return f"/api/v1/namespaces/{namespace}/{plural}{name and '/'}{name}"


def pod(name: str, cpu: str = "1") -> dict[str, Any]:
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}}
    return {"metadata": {"name": name}, "spec": {"containers": [container]}}


async def quota(server: InProcess, namespace: str) -> Any:
    return (await server.ask("GET", path(namespace, "resourcequotas", "q"))).body


async def used(server: InProcess, namespace: str) -> Any:
    await counted(server)
    return (await quota(server, namespace)).get("status", {}).get("used")


def test_a_new_quota_shows_what_is_used_and_its_limits(a: str, play: Callable[[Scene], None]) -> None:
    async def scene(server: InProcess) -> None:
        await space(server, a, pods="3", requests_cpu="8")
        await counted(server)
        status = (await quota(server, a))["status"]
        assert status == {"hard": {"pods": "3", "requests.cpu": "8"}, "used": {"pods": "0", "requests.cpu": "0"}}

    play(scene)


def test_the_usage_follows_pods_that_come_and_end_and_go(a: str, play: Callable[[Scene], None]) -> None:
    async def scene(server: InProcess) -> None:
        await space(server, a, pods="3", requests_cpu="8")
        for name, cpu in (("p", "1500m"), ("q", "2")):
            await server.make(path(a, "pods"), pod(name, cpu))
        assert await used(server, a) == {"pods": "2", "requests.cpu": "3500m"}
        done = {"status": {"phase": "Succeeded"}}
        await server.ask("PATCH", path(a, "pods", "q") + "/status", done, "application/merge-patch+json")
        assert await used(server, a) == {"pods": "1", "requests.cpu": "1500m"}
        await server.ask("DELETE", path(a, "pods", "p") + "?gracePeriodSeconds=0")
        assert await used(server, a) == {"pods": "0", "requests.cpu": "0"}

    play(scene)


def test_a_changed_limit_is_repeated_in_the_status(a: str, play: Callable[[Scene], None]) -> None:
    async def scene(server: InProcess) -> None:
        await space(server, a, pods="3")
        change = {"spec": {"hard": {"pods": "5"}}}
        await server.ask("PATCH", path(a, "resourcequotas", "q"), change, "application/merge-patch+json")
        await counted(server)
        assert (await quota(server, a))["status"]["hard"] == {"pods": "5"}

    play(scene)


def test_a_status_that_stays_the_same_is_not_written(a: str, play: Callable[[Scene], None]) -> None:
    async def scene(server: InProcess) -> None:
        await space(server, a, pods="3")
        await counted(server)
        before = (await quota(server, a))["metadata"]["resourceVersion"]
        await server.make(path(a, "configmaps"), {"metadata": {"name": "m"}})
        await counted(server)
        assert (await quota(server, a))["metadata"]["resourceVersion"] == before

    play(scene)


def test_namespaces_without_quotas_are_not_counted(play: Callable[[Scene], None]) -> None:
    async def scene(server: InProcess) -> None:
        await counted(server)
        await server.make("/api/v1/namespaces/default/configmaps", {"metadata": {"name": "m"}})
        assert server.api.engine.quota_usage._task is None

    play(scene)


def test_a_status_that_cannot_be_written_stops_no_other_quota(
    a: str, play: Callable[[Scene], None], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def scene(server: InProcess) -> None:
        spaces = [a, *(f"{a}-{at}" for at in range(5))]
        for name in spaces:
            await space(server, name, pods="3")
        await counted(server)
        update, refused = server.api.engine.writer.update, [*spaces]

        async def failing(target: Any, *about: Any) -> Any:
            if target.resource.plural == "resourcequotas" and target.namespace in refused:
                raise StatusError(500, "InternalError", "no space left on device")
            return await update(target, *about)

        monkeypatch.setattr(server.api.engine.writer, "update", failing)
        for name in spaces:
            await server.make(path(name, "pods"), pod("p"))
        assert [await used(server, name) for name in spaces] == [{"pods": "0"}] * 6
        refused.remove(spaces[3])
        server.api.engine.quota_usage._look_at({*spaces})  # as after writes in all of them at the same time
        assert [await used(server, name) for name in spaces] == [{"pods": str(int(at == 3))} for at in range(6)]
        assert "the usage of a quota is not written yet: no space left on device" in caplog.text
        refused.clear()
        await server.make(path(a, "configmaps"), {"metadata": {"name": "m"}})
        assert await used(server, a) == {"pods": "1"}, "it is counted again after the next write in the namespace"

    play(scene)


def test_a_quota_that_cannot_be_counted_stops_no_other_quota(
    a: str, play: Callable[[Scene], None], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Neither in its namespace nor in others that are counted at the same time."""

    async def scene(server: InProcess) -> None:
        spaces = [a, f"{a}-1"]
        for name in spaces:
            await space(server, name, pods="3")
        await server.make(path(a, "resourcequotas"), {"metadata": {"name": "a"}, "spec": {"hard": {"pods": "5"}}})
        await counted(server)
        total_usage = resource_quota.total_usage

        def failing(quota: Any, *about: Any) -> Any:
            if quota["metadata"]["name"] == "a":
                raise ZeroDivisionError
            return total_usage(quota, *about)

        monkeypatch.setattr(resource_quota, "total_usage", failing)
        for name in spaces:
            await server.make(path(name, "pods"), pod("p"))
        await counted(server)
        server.api.engine.quota_usage._look_at({*spaces})
        assert [await used(server, name) for name in spaces] == [{"pods": "1"}] * 2
        assert f"the usage of a quota was not counted: {a}/a" in caplog.text

    play(scene)


@pytest.mark.parametrize("code", [404, 409])
def test_a_quota_that_was_deleted_or_changed_meanwhile_is_no_error(
    a: str, play: Callable[[Scene], None], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, code: int
) -> None:
    async def scene(server: InProcess) -> None:
        await space(server, a, pods="3")
        await counted(server)

        async def gone(*about: Any) -> Any:
            raise StatusError(code, "x", "y")

        monkeypatch.setattr(server.api.engine.writer, "update", gone)
        await server.make(path(a, "pods"), pod("p"))
        await counted(server)
        assert caplog.text == ""

    play(scene)


def test_usage_that_an_ended_server_has_not_counted_is_counted_at_the_next_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(quota_usage, "_PAUSE_S", 3600.0)

    async def create(server: InProcess) -> None:
        await space(server, "a", pods="3")
        await server.make(path("a", "pods"), pod("p"))

    async def count(server: InProcess) -> None:
        assert await used(server, "a") == {"pods": "1"}

    with played(tmp_path / "data") as play:
        play(create)
    monkeypatch.setattr(quota_usage, "_PAUSE_S", 0.0)
    with played(tmp_path / "data") as play:
        play(count)
