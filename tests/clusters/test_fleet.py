"""The connections to workers: each state is a condition that says what is wrong and how to mend it."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from phalanx.client.connection import Connection
from phalanx.client.kind import CRDS, JOB_SETS, JOBS, NAMESPACES, NODES, SECRETS, Kind
from phalanx.clusters.workers import fleet as fleet_
from phalanx.clusters.workers import worker as worker_
from phalanx.clusters.workers.fleet import Fleet
from phalanx.clusters.workers.source import Source
from phalanx.clusters.workers.state import read_figures
from phalanx.dialects.job_kinds.sent_volcano_job import VOLCANO_JOB
from phalanx.dialects.kueue.dialect import KUEUE
from phalanx.dialects.kueue.kinds import MULTI_CLUSTERS
from phalanx.embedded.controllers.runtime.calls import SharedInformers
from phalanx.kube.install.definitions import install_dialect, served
from phalanx.model.event import NodeSeen
from tests.clusters.plays import open_definition
from tests.embedded.apiserver.process import ServerProcess
from tests.kube.double import node

Object = dict[str, Any]

SECRET = {"name": "w1", "namespace": "kueue-system"}


def cluster(name: str, location: str = "w1", kind: str = "Secret") -> Object:
    source = {"kubeConfig": {"location": location, "locationType": kind}}
    return {
        "apiVersion": MULTI_CLUSTERS.api_version,
        "kind": MULTI_CLUSTERS.name,
        "metadata": {"name": name},
        "spec": {"clusterSource": source},
    }


def secret(text: str | bytes, name: str = "w1", key: str = "kubeconfig") -> Object:
    data = base64.b64encode(text.encode() if isinstance(text, str) else text).decode()
    return {"apiVersion": "v1", "kind": "Secret", "metadata": {**SECRET, "name": name}, "data": {key: data}}


def inline(server: ServerProcess, **user: Any) -> str:
    """The kubeconfig of a server, with all of it inside."""
    authority = base64.b64encode(server.ca.read_bytes()).decode()
    return json.dumps(
        {
            "current-context": "c",
            "clusters": [{"name": "c", "cluster": {"server": server.url, "certificate-authority-data": authority}}],
            "users": [{"name": "c", "user": user or {"token": server.token}}],
            "contexts": [{"name": "c", "context": {"cluster": "c", "user": "c"}}],
        }
    )


async def ready(connection: Connection, *spaces: str) -> None:
    """Install Kueue's kinds, and create namespaces."""
    await install_dialect(connection, KUEUE)
    await served(connection, MULTI_CLUSTERS)
    for name in spaces:
        await connection.create(
            Kind(plural="namespaces", name="Namespace", namespaced=False), {"metadata": {"name": name}}
        )


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[ServerProcess, ServerProcess]]:
    """A manager and a worker; the worker serves no queues yet."""
    folder = tmp_path_factory.mktemp("clusters")
    with ServerProcess.started(folder / "manager") as manager, ServerProcess.started(folder / "worker") as worker:

        async def install() -> None:
            async with await Connection.open(manager.kubeconfig) as connection:
                await ready(connection, "kueue-system")

        asyncio.run(install())
        yield manager, worker


@contextlib.asynccontextmanager
async def fleet(manager: ServerProcess) -> AsyncIterator[tuple[Connection, Fleet, Callable[..., Any]]]:
    """A running fleet, and a function that waits for a condition of a cluster."""
    async with (
        asyncio.timeout(60),
        await Connection.open(manager.kubeconfig) as connection,
        SharedInformers(connection) as informers,
    ):
        found = Fleet(connection, informers, lambda: 1_000.0, kinds=lambda: (JOBS, JOB_SETS))
        found.own_uid = (await connection.get(NAMESPACES, "kube-system"))["metadata"]["uid"]
        running = asyncio.ensure_future(found.run())
        news = asyncio.Event()
        informers(MULTI_CLUSTERS).subscribe(lambda change: news.set())

        async def until(name: str, reached: Callable[[Object, Object], bool]) -> Object:
            while True:
                obj = informers(MULTI_CLUSTERS).objects.get(name) or {}
                conditions = (obj.get("status") or {}).get("conditions") or [{}]
                if obj and reached(conditions[0], obj):
                    return {**conditions[0], "figures": read_figures(obj)}
                assert not running.done(), running.result()
                news.clear()
                await news.wait()

        try:
            yield connection, found, until
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)


async def forget(connection: Connection, *names: str) -> None:
    for name in names:
        await connection.delete(MULTI_CLUSTERS, name)
    await connection.delete(SECRETS, "w1", "kueue-system")


def says(text: str) -> Callable[[Object, Object], bool]:
    return lambda one, obj: text in str(one.get("message"))


@pytest.mark.slow
async def test_each_fault_is_said_with_how_to_mend_it_and_a_mended_one_connects(
    servers: tuple[ServerProcess, ServerProcess], monkeypatch: pytest.MonkeyPatch
) -> None:
    manager, worker = servers
    monkeypatch.setattr(worker_, "FIRST_PAUSE_S", 0.05)
    monkeypatch.setattr(worker_, "LONGEST_PAUSE_S", 0.05)
    monkeypatch.setattr(worker_, "LOOK_S", 0.2)
    monkeypatch.setattr(worker_, "SOURCE_S", 0.2)
    monkeypatch.setattr(fleet_, "FIGURES_S", 0.2)
    async with fleet(manager) as (connection, found, until):
        await connection.create(MULTI_CLUSTERS, cluster("w1"))
        one = await until("w1", says("there is no Secret kueue-system/w1"))
        assert (one["status"], one["reason"]) == ("False", "BadKubeConfig")
        assert "kubectl create secret generic w1 -n kueue-system --from-file=kubeconfig=FILE" in one["message"]

        async def write(text: str | bytes, key: str = "kubeconfig") -> None:
            await connection.replace(SECRETS, secret(text, key=key))

        await connection.create(SECRETS, secret("x", key="other"), "kueue-system")
        await until("w1", says("has no key kubeconfig"))
        await write("{")
        await until("w1", says("not a kubeconfig"))
        await write(
            inline(
                worker,
                exec={
                    "apiVersion": "client.authentication.k8s.io/v1",
                    "command": "/bin/sh",
                    "interactiveMode": "Never",
                },
            )
        )
        await until("w1", says("names a file or a program"))
        await write(inline(worker, token="wrong"))
        one = await until("w1", says("it refuses the user of Secret kueue-system/w1"))
        assert one["reason"] == "ClientConnectionFailed"
        await write(inline(worker).replace(worker.url, "https://127.0.0.1:1"))
        await until("w1", says("it cannot be reached"))
        await write(inline(manager))
        await until("w1", says("it is this cluster itself"))
        await write(inline(worker))
        await until("w1", says("it serves no queues"))
        async with await Connection.open(worker.kubeconfig) as there:
            await ready(there)
            await there.create(NODES, {"apiVersion": "v1", "kind": "Node", **node("n1", 4)})
        one = await until("w1", lambda one, obj: one.get("status") == "True" and bool(read_figures(obj).nodes))
        assert one["reason"] == "Active"
        assert one["message"].endswith("so none are sent to it: JobSet")
        assert one["figures"].lacks == ("JobSet",)
        async with await Connection.open(worker.kubeconfig) as there:
            definition = {"apiVersion": CRDS.api_version, "kind": CRDS.name, **open_definition(JOB_SETS)}
            await there.create(CRDS, definition)
        await until("w1", lambda one, obj: one.get("message") == "Connected")
        assert one["figures"].scheduler == "Kueue"
        [seen] = found.events()
        assert isinstance(seen, NodeSeen)
        assert (seen.node.name, dict(seen.node.allocatable)["cpu"]) == ("w1:n1", 4000)
        await forget(connection, "w1")


@pytest.mark.slow
async def test_a_worker_that_ends_and_comes_back_is_followed(
    servers: tuple[ServerProcess, ServerProcess], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    manager, _ = servers
    for name in ("FIRST_PAUSE_S", "LONGEST_PAUSE_S", "LOOK_S"):
        monkeypatch.setattr(worker_, name, 0.1)
    data = tmp_path / "w2"
    worker = ServerProcess.start(data)
    async with await Connection.open(worker.kubeconfig) as there:
        await ready(there)
    async with fleet(manager) as (connection, _, until):
        await connection.create(MULTI_CLUSTERS, cluster("w2", str(worker.kubeconfig), "Path"))
        await until("w2", says("Connected"))
        worker.kill()
        one = await until("w2", says("it cannot be reached"))
        assert "Check that its API server runs" in one["message"]
        with ServerProcess.started(data, int(worker.url.rpartition(":")[2])):
            await until("w2", says("Connected"))
        await connection.delete(MULTI_CLUSTERS, "w2")


async def test_a_cache_that_fails_ends_the_connection_which_is_made_again() -> None:
    """Otherwise the ends of jobs would not be seen, although the cluster answers."""

    async def fail() -> None:
        raise KeyError("object")

    found = worker_.Worker("w1", Source("w1"), None, lambda: 0.0, lambda worker: None)  # type: ignore[arg-type]  # not called
    found.look_s = 0.0
    with pytest.raises(KeyError):
        await found._stay(None, (None, None), [asyncio.ensure_future(fail())])  # type: ignore[arg-type]  # not called


async def test_answers_that_cannot_be_read_are_shown_and_asked_for_again(monkeypatch: pytest.MonkeyPatch) -> None:
    told, seen = asyncio.Event(), []

    def changed(worker: worker_.Worker) -> None:
        assert worker.state is not None
        seen.append(worker.state.message)
        told.set()

    found = worker_.Worker("w1", Source("w1"), None, lambda: 0.0, changed)  # type: ignore[arg-type]  # not called

    async def strange() -> None:
        raise AttributeError("'str' object has no attribute 'get'")

    monkeypatch.setattr(found, "_once", strange)
    running = asyncio.ensure_future(found.run())
    await told.wait()
    assert "its answers cannot be read: AttributeError" in seen[0]
    assert "Kubernetes API server" in seen[0]
    assert not running.done()
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


def test_the_manager_itself_and_a_second_name_of_a_cluster_get_no_jobs() -> None:
    found = Fleet(None, lambda kind: None, lambda: 0.0)  # type: ignore[arg-type]  # nothing is called
    found.own_uid = "own"

    class Known:
        def __init__(self, name: str, uid: str, *, active: bool = True) -> None:
            self.name, self.uid, self.active = name, uid, active

    found.workers = {name: Known(name, uid) for name, uid in (("a", "1"), ("b", "1"), ("c", "2"))}  # type: ignore[misc]  # a double
    assert "this cluster itself" in found.same_as("x", "own")
    assert "the same cluster as a" in found.same_as("b", "1")
    assert found.same_as("a", "1") == found.same_as("c", "2") == found.same_as("b", "") == ""
    found.workers["a"].active = False  # type: ignore[misc]  # a double
    assert found.same_as("b", "1") == ""


@pytest.mark.slow
def test_volcanos_job_is_listed_with_its_group_because_a_worker_has_kubernetes_job() -> None:
    worker = SimpleNamespace(sent={JOBS: None}, _kinds=lambda: (JOBS, JOB_SETS, VOLCANO_JOB.kind))
    assert vars(worker_.Worker)["lacks"].fget(worker) == ("Job of batch.volcano.sh", "JobSet")
