"""Jobs are sent over a link that delays, and cuts connections in the middle: a manager and a worker of two servers."""

from __future__ import annotations

import asyncio
import contextlib
import random
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from phalanx import loop
from phalanx.client.connection import Connection
from phalanx.client.informer import Informer
from phalanx.client.kind import CRDS, JOB_SETS, JOBS, NODES, SECRETS, Kind
from phalanx.clusters.copies import content
from phalanx.clusters.copies.sendable import SENDABLE
from phalanx.clusters.dispatch import Dispatcher
from phalanx.clusters.sending import job_reconciler
from phalanx.clusters.workers import worker as worker_
from phalanx.clusters.workers.reach import cluster_of, reached
from phalanx.dialects.kueue import kinds
from phalanx.embedded.controllers.runtime.calls import SharedInformers
from phalanx.errors import PhalanxError
from phalanx.kube.routing.settings import KubeSettings
from phalanx.kube.world.capacity_sources import CapacitySources
from phalanx.kube.world.opening import open_world
from phalanx.model.policy import Policy
from phalanx.state.cluster import Cluster
from tests.clusters.plays import OF_KIND, complete, open_definition
from tests.clusters.several import CHECK
from tests.clusters.test_fleet import cluster, inline, ready, secret
from tests.embedded.apiserver.process import ServerProcess
from tests.kube.double import node
from tests.kube.test_kueue import ON

JOBS_SENT, KINDS = 6, (JOBS, JOB_SETS)
Object = dict[str, Any]


@dataclass
class Link:
    """`port` leads to another one. Until `calm_s` (of the monotonic clock), one connection in three is cut."""

    port: int = 0
    calm_s: float = field(default_factory=lambda: time.monotonic() + 8.0)


@contextlib.asynccontextmanager
async def bad_link(port: int) -> AsyncIterator[Link]:
    """A link to the port: each piece comes late, and connections are cut after some of them."""
    chance, link = random.Random(7), Link()

    async def carry(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, left: int) -> None:
        with contextlib.suppress(OSError):
            while left and (piece := await reader.read(4096)):
                await asyncio.sleep(chance.uniform(0.0, 0.02))
                writer.write(piece)
                await writer.drain()
                left -= 1
        writer.close()

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        cut = chance.randint(2, 12) if time.monotonic() < link.calm_s and chance.random() < 1 / 3 else -1
        there, back = await asyncio.open_connection("127.0.0.1", port)
        await asyncio.gather(carry(reader, back, cut), carry(there, writer, cut))

    server = await asyncio.start_server(accept, "127.0.0.1", 0)
    link.port = server.sockets[0].getsockname()[1]
    try:
        yield link
    finally:
        server.close()


def named(kind: Any, name: str, space: str = "", **spec: Any) -> Object:
    meta = {"name": name, **({"namespace": space} if space else {})}
    return {"apiVersion": kind.api_version, "kind": kind.name, "metadata": meta, "spec": spec}


async def define(user: Connection, kubeconfig: str) -> None:
    """MultiKueue's manifests, and a queue that sends its jobs."""
    await user.create(SECRETS, secret(kubeconfig), "kueue-system")
    quotas = [{"name": "cpu", "nominalQuota": "100"}]
    group = {"coveredResources": ["cpu"], "flavors": [{"name": "any", "resources": quotas}]}
    checks = {"admissionChecks": [{"name": "send"}]}
    queue: Object = {"namespaceSelector": {}, "resourceGroups": [group], "admissionChecksStrategy": checks}
    for kind, body in (
        (kinds.MULTI_CLUSTERS, cluster("w1")),
        (kinds.MULTI_CONFIGS, named(kinds.MULTI_CONFIGS, "workers", clusters=["w1"])),
        (kinds.ADMISSION_CHECKS, named(kinds.ADMISSION_CHECKS, "send", **CHECK)),
        (kinds.RESOURCE_FLAVORS, named(kinds.RESOURCE_FLAVORS, "any")),
        (kinds.CLUSTER_QUEUES, named(kinds.CLUSTER_QUEUES, "q", **queue)),
    ):
        await user.create(kind, body)
    await user.create(kinds.LOCAL_QUEUES, named(kinds.LOCAL_QUEUES, "l", "default", clusterQueue="q"), "default")


async def define_job_sets(there: Connection) -> None:
    await there.create(CRDS, {"apiVersion": CRDS.api_version, "kind": CRDS.name, **open_definition(JOB_SETS)})


async def submit(user: Connection, name: str, kind: Kind) -> None:
    body = complete(OF_KIND[kind].obj(name))
    await user.create(kind, {"apiVersion": kind.api_version, "kind": kind.name, **body}, "default")


async def play_worker(there: Connection, made: set[str]) -> None:
    """Start and finish each copy, as a worker does. `made`: the uids of all copies that ever existed."""
    pending: asyncio.Queue[tuple[Kind, Object]] = asyncio.Queue()
    informers = [Informer(there, kind) for kind in KINDS]
    for informer in informers:
        informer.subscribe(lambda change: pending.put_nowait((change.kind, change.new)) if change.new else None)
    watching = [asyncio.ensure_future(informer.run()) for informer in informers]
    try:
        while True:
            kind, copied = await pending.get()
            meta = copied["metadata"]
            made.add(meta["uid"])
            if copied["spec"]["suspend"]:
                await there.patch(kind, meta["name"], {"spec": {"suspend": False}}, "default")
            elif not SENDABLE[kind].is_over(copied):
                status = {**OF_KIND[kind].runs, **OF_KIND[kind].ends}
                await there.patch(kind, meta["name"], {"status": status}, "default", "status")
    finally:
        for task in watching:
            task.cancel()
        await asyncio.gather(*watching, return_exceptions=True)


@pytest.mark.long
def test_each_job_runs_once_over_a_link_that_delays_and_cuts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(job_reconciler, "RETRY_S", 0.2)
    for name in ("FIRST_PAUSE_S", "LONGEST_PAUSE_S", "LOOK_S"):
        monkeypatch.setattr(worker_, name, 0.2)

    async def run(manager: ServerProcess, worker: ServerProcess) -> None:
        async with (
            asyncio.timeout(150),
            await Connection.open(manager.kubeconfig) as user,
            await Connection.open(worker.kubeconfig) as there,
            SharedInformers(user) as informers,
            bad_link(int(worker.url.rpartition(":")[2])) as link,
        ):
            await asyncio.gather(ready(user, "kueue-system"), ready(there))
            await asyncio.gather(define_job_sets(user), define_job_sets(there))
            await there.create(NODES, {"apiVersion": "v1", "kind": "Node", **node("n1", 100)})
            taint = {"spec": {"taints": None}}
            await there.patch(NODES, "n1", taint)
            far = worker.url.rpartition(":")[0] + f":{link.port}"
            await define(user, inline(worker).replace(worker.url, far))
            made: set[str] = set()
            playing = asyncio.ensure_future(play_worker(there, made))
            clusters = Dispatcher(user, informers, time.time)
            sources = CapacitySources(clusters=clusters)
            async with open_world(user, informers, KubeSettings(dialects=ON), sources=sources) as world:
                deciding = asyncio.ensure_future(loop.run(world, Cluster(), Policy(), time.time))
                for number in range(JOBS_SENT):
                    await submit(user, f"j{number}", KINDS[number % 2])
                await until_over(informers, playing, deciding)
                deciding.cancel()
            playing.cancel()
            await asyncio.gather(playing, deciding, return_exceptions=True)
            assert len(made) == JOBS_SENT, "each has one copy, and no copy was made twice"
            link.calm_s = 0.0  # a command is not repeated
            await can_be_read(user, far)

    with ServerProcess.started(tmp_path / "manager") as manager, ServerProcess.started(tmp_path / "worker") as worker:
        asyncio.run(run(manager, worker))


async def until_over(informers: SharedInformers, *tasks: asyncio.Task[None]) -> None:
    """Wait until the manager has the end of every Job."""
    news = asyncio.Event()
    for kind in KINDS:
        informers(kind).subscribe(lambda change: news.set())
    while True:
        jobs = [(kind, obj) for kind in KINDS for obj in informers(kind).objects.values()]
        if len(jobs) == JOBS_SENT and all(SENDABLE[kind].is_over(obj) for kind, obj in jobs):
            return
        assert not any(task.done() for task in tasks), [task for task in tasks if task.done()]
        news.clear()
        await news.wait()


async def can_be_read(user: Connection, url: str) -> None:
    """Commands reach the cluster of a Job by the caller's rights, and say where it is if they cannot."""
    found = await user.get(JOBS, "j0", "default")
    assert found["status"]["succeeded"] == 2
    assert cluster_of([found]) == "w1"
    async with reached(user, [found]) as there:
        assert there.server == url
        assert (await there.get(JOBS, "j0", "default"))["metadata"]["labels"][content.JOB] == found["metadata"]["uid"]
    await user.delete(SECRETS, "w1", "kueue-system")
    with pytest.raises(PhalanxError, match="the job is in cluster w1, whose kubeconfig you cannot use"):
        async with reached(user, [found]):
            raise AssertionError("it was reached")
