"""`controllers/run.py`: all controllers run in one event loop, and none decides before its caches are filled."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

import pytest

from phalanx.client.connection import Connection, Object
from phalanx.client.informer import Informer
from phalanx.client.kind import JOBS, PODS, Kind
from phalanx.embedded.controllers import run
from phalanx.embedded.controllers.groups.group import ControllerGroup
from phalanx.embedded.controllers.groups.settings import Settings
from phalanx.embedded.controllers.run import run_controllers
from phalanx.embedded.controllers.runtime.reconciler import Reconciler

POD = {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}


class Api:
    """The API server: caches that nothing fills by itself, and the calls that came. A read is never answered."""

    def __init__(self) -> None:
        self.caches: dict[Kind, Informer] = {}
        self.calls: list[str] = []
        self._version = 0

    def informers(self, kind: Kind) -> Informer:
        unused: Any = self
        return self.caches.setdefault(kind, Informer(unused, kind))

    def put(self, kind: Kind, name: str, **fields: Any) -> Object:
        self._version += 1
        meta = {"name": name, "namespace": "ns", "uid": f"uid-{name}", "resourceVersion": str(self._version)}
        meta |= fields.pop("metadata", {})
        obj = {"apiVersion": kind.api_version, "kind": kind.name, "metadata": meta, **fields}
        self.informers(kind).observe(obj)
        return obj

    def fill(self, *but: Kind) -> None:
        """The first list of every kind is there, except of these."""
        for kind, cache in self.caches.items():
            if kind not in but:
                cache.synced.set()

    async def create(self, kind: Kind, body: Object, namespace: str = "", **_: Any) -> Object:
        meta = body["metadata"]
        name = meta.get("name") or f"{meta['generateName']}{len(self.calls)}"
        self.calls.append(f"create {kind.plural}")
        return self.put(
            kind,
            name,
            **{key: value for key, value in body.items() if key not in ("apiVersion", "kind")}
            | {"metadata": {**meta, "name": name}},
        )

    def __getattr__(self, verb: str) -> Callable[..., Awaitable[Any]]:
        async def wait(*about: Any, **_: Any) -> Any:
            self.calls.append(f"{verb} {getattr(about[0], 'plural', about[0])}" if about else verb)
            await asyncio.Event().wait()

        return wait


def job(api: Api) -> None:
    spec = {"parallelism": 1, "completions": 1, "backoffLimit": 6, "template": {"spec": POD}, "selector": {}}
    spec |= {"completionMode": "NonIndexed", "suspend": False, "podReplacementPolicy": "TerminatingOrFailed"}
    api.put(JOBS, "j", spec=spec, status={}, metadata={"creationTimestamp": "2026-01-01T00:00:00Z"})


def played(scene: Callable[[Api], Awaitable[None]], settings: Settings | None = None) -> Api:
    """Run the controllers during the scene, without the installation of definitions."""

    async def play() -> Api:
        api = Api()
        connection: Any = api
        quick = settings or Settings(job=replace(Settings().job, batch_s=0.0, settle_s=0.0))
        running = asyncio.ensure_future(run_controllers(connection, api.informers, quick))
        try:
            await rest()
            await scene(api)
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
            left = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
            assert left == [], "every controller ends with the call"
        return api

    return asyncio.run(play())


async def rest() -> None:
    for _ in range(60):
        await asyncio.sleep(0)


@pytest.fixture(autouse=True)
def definitions(monkeypatch: pytest.MonkeyPatch) -> list[Connection]:
    """The installations of definitions that were asked for; none is carried out."""
    asked: list[Connection] = []

    async def install(connection: Connection) -> None:
        asked.append(connection)

    monkeypatch.setattr(run, "install_operators", install)
    return asked


@pytest.mark.parametrize("late", run._NEEDED, ids=lambda kind: kind.plural)
def test_nothing_is_written_before_every_needed_cache_is_filled(late: Kind) -> None:
    """A Job whose pods are not in the cache yet would get new pods."""

    async def scene(api: Api) -> None:
        job(api)
        api.fill(late)
        await rest()
        assert [call for call in api.calls if not call.startswith(("list", "request", "get"))] == []
        api.fill()
        await rest()
        assert "create pods" in api.calls

    played(scene)


def test_a_kind_that_is_not_served_delays_no_other_controller() -> None:
    async def scene(api: Api) -> None:
        job(api)
        api.fill(*(kind for kind in api.caches if kind not in run._NEEDED))
        await rest()
        assert "create pods" in api.calls

    played(scene)


def test_definitions_are_installed_before_any_kind_is_watched(monkeypatch: pytest.MonkeyPatch) -> None:
    """A watch of a kind that is not defined yet fails."""

    async def never(connection: Connection) -> None:
        await asyncio.Event().wait()

    monkeypatch.setattr(run, "install_operators", never)

    async def scene(api: Api) -> None:
        assert api.caches == {}

    played(scene)


def test_pods_and_jobs_are_indexed_before_a_controller_hears_of_them() -> None:
    async def scene(api: Api) -> None:
        for kind in (PODS, JOBS):
            first = api.caches[kind]._subscribers[0]
            assert getattr(first, "__qualname__", "") == "OwnerPodIndex.take", kind.plural

    played(scene)


def test_each_kind_has_one_controller() -> None:
    """Two controllers of one kind would undo each other's writes."""
    seen: list[tuple[str, str, str]] = []

    def noted(made: Callable[..., ControllerGroup]) -> Any:
        def make(*words: Any) -> ControllerGroup:
            found = made(*words)
            loops = [one for one in found.loops if isinstance(one, Reconciler)]
            seen.extend((type(one).__name__, one.kind.group, one.kind.plural) for one in loops)
            return found

        return make

    async def scene(api: Api) -> None:
        kinds = [(group, plural) for _, group, plural in seen]
        assert len(kinds) == len(set(kinds)), seen
        assert ("batch", "cronjobs") in kinds
        assert ("apps", "statefulsets") in kinds

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(run, "workload_group", noted(run.workload_group))
        patch.setattr(run, "operator_group", noted(run.operator_group))
        played(scene)


def test_profiles_are_translated_only_if_there_are_any() -> None:
    class Profiles:
        kind = Kind(group="x.org", plural="profiles", name="Profile", namespaced=False)
        classes = Kind(group="x.org", plural="classes", name="Class", namespaced=False)
        made = ()

        def objects(self, profile: Object, classes: Any) -> Any:
            return ()

    async def without(api: Api) -> None:
        assert Profiles.kind not in api.caches

    async def with_profiles(api: Api) -> None:
        assert {Profiles.kind, Profiles.classes} <= api.caches.keys()

    played(without)
    played(with_profiles, Settings(profiles=Profiles()))


def test_the_defaults_are_those_of_kube_controller_manager() -> None:
    """--node-monitor-period, --node-monitor-grace-period, --terminated-pod-gc-threshold."""
    settings = Settings()
    assert settings.node_period_s == 5.0
    assert settings.most_finished_pods == 12_500
    assert settings.node_grace_s == 50.0
    assert settings.volumes_dir is None, "no volume is created unless a folder is given"
