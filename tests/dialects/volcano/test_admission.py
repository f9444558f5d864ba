"""What Volcano's webhooks refuse is refused by admission policies in the API server."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from phalanx.client.connection import ApiRefusal, Connection
from phalanx.client.kind import Kind
from phalanx.dialects.frame.dialect import Object
from phalanx.dialects.volcano.dialect import VOLCANO
from phalanx.dialects.volcano.kinds import JOBS, QUEUES
from phalanx.kube.install.dialects import install_dialect
from tests.embedded.apiserver.process import ServerProcess
from tests.embedded.controllers.operators.volcano.written import task

pytestmark = pytest.mark.slow
FLOWS = Kind(group="flow.volcano.sh", version="v1alpha1", plural="jobflows", name="JobFlow")
CRONS = Kind(group="batch.volcano.sh", version="v1alpha1", plural="cronjobs", name="CronJob")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    with ServerProcess.started(tmp_path_factory.mktemp("volcano")) as found:
        asyncio.run(_install(found))
        yield found


async def _install(server: ServerProcess) -> None:
    async with await Connection.open(server.kubeconfig) as api:
        await install_dialect(api, VOLCANO)


def send(server: ServerProcess, kind: Kind, name: str, spec: Object, **meta: Any) -> str:
    """What the server says against it; empty: nothing."""

    async def sent() -> str:
        async with await Connection.open(server.kubeconfig) as api:
            body = {"apiVersion": kind.api_version, "kind": kind.name, "metadata": {"name": name, **meta}, "spec": spec}
            try:
                await api.create(kind, body, "default" if kind.namespaced else "")
            except ApiRefusal as error:
                return f"{error.code} {error}"
            return ""

    return asyncio.run(sent())


def job(*tasks: Object, **spec: Any) -> Object:
    return {"tasks": list(tasks), **spec}


TWICE = [{"event": "PodFailed", "action": "RestartJob"}, {"event": "PodFailed", "action": "AbortJob"}]
BOTH = [{"event": "PodFailed", "exitCode": 3, "action": "RestartJob"}]
ALL = [{"event": "*", "action": "RestartJob"}, {"event": "PodFailed", "action": "AbortJob"}]
CLAIMS: Any = [{"mountPath": "/a"}]
CIRCLE = [task(name, 1, dependsOn={"name": [other]}) for name, other in ("ab", "bc", "ca")]
FLOW_CIRCLE = [{"name": name, "dependsOn": {"targets": [other]}} for name, other in ("ab", "ba")]
REFUSED: list[Any] = [
    (JOBS, job({"name": "a", "replicas": 1}), "needs containers"),
    (JOBS, job(task("a", 1), task("a", 1)), "duplicated task name"),
    (JOBS, job(task("a", 1), minAvailable=2), "should not be greater than total replicas"),
    (JOBS, job(task("a", 1, minAvailable=2)), "is greater than 'replicas'"),
    (JOBS, job(task("a", 1), plugins={"gpu": []}), "unable to find job plugin"),
    (JOBS, job(task("a", 1), plugins={"mpi": []}), "needs a task 'master'"),
    (JOBS, job(task("a", 1), queue="root"), "root queue"),
    (JOBS, job(task("a", 1), policies=TWICE), "duplicate event"),
    (JOBS, job(task("a", 1), policies=BOTH), "simultaneously"),
    (JOBS, job(task("a", 1), policies=ALL), "no other policy"),
    (JOBS, job(task("a", 1, policies=TWICE)), "a task: duplicate event"),
    (JOBS, job(task("a", 1), policies=[{"exitCode": 0, "action": "AbortJob"}]), "not a valid error code"),
    (JOBS, job(task("a", 1), policies=[{"event": "PodRunning", "action": "AbortJob"}]), "invalid policy event"),
    (JOBS, job(task("a", 1), policies=[{"event": "PodFailed", "action": "Stop"}]), "invalid policy action"),
    (JOBS, job(task("a", 1), volumes=CLAIMS), "exactly one of volumeClaim"),
    (JOBS, job(task("a", 1, dependsOn={"name": ["b"]})), "depends on a task that is not there"),
    (JOBS, job(*CIRCLE), "job has dependencies between tasks, but doesn't form a directed acyclic graph(DAG)"),
    (JOBS, job(task("x", 1), *CIRCLE, task("y", 1, dependsOn={"name": ["x"]})), "acyclic graph(DAG)"),
    (JOBS, job(task("a", 3, partitionPolicy={"totalPartitions": 2, "partitionSize": 2})), "'totalPartitions'"),
    (QUEUES, {"capability": {"cpu": 1}, "deserved": {"cpu": "1500m"}}, "less equal than capability"),
    (QUEUES, {"deserved": {"cpu": 1}, "guarantee": {"resource": {"cpu": 2}}}, "less equal than deserved"),
    (QUEUES, {"parent": "refused"}, "not below itself"),
    (FLOWS, {"flows": [{"name": "a", "dependsOn": {"targets": ["b"]}}]}, "not there"),
    (FLOWS, {"flows": FLOW_CIRCLE}, "acyclic graph(DAG)"),
    (CRONS, {"schedule": "TZ=UTC * * * * *", "jobTemplate": {"spec": job(task("a", 1))}}, "TZ and CRON_TZ"),
]


@pytest.mark.parametrize(("kind", "spec", "words"), REFUSED)
def test_what_volcano_refuses(server: ServerProcess, kind: Kind, spec: Object, words: str) -> None:
    said = send(server, kind, "refused", spec)
    assert said.startswith("422 ")
    assert words in said


def test_what_volcano_takes(server: ServerProcess) -> None:
    policies = [{"events": ["PodFailed", "PodEvicted"], "action": "RestartJob", "timeout": "10s"}]
    policies += [{"exitCode": 3, "action": "AbortJob"}]  # type: ignore[dict-item]  # JSON
    tasks = (task("master", 1), task("b", 2, minAvailable=1, dependsOn={"name": ["master"]}, policies=policies))
    assert send(server, JOBS, "taken", job(*tasks, minAvailable=2, policies=policies, plugins={"mpi": []})) == ""
    amounts = {"capability": {"cpu": 4}, "deserved": {"cpu": 2}, "guarantee": {"resource": {"cpu": "500m"}}}
    assert send(server, QUEUES, "taken", {**amounts, "parent": "root"}) == ""


@pytest.mark.parametrize("length", [15, 20])
def test_a_chain_of_any_length_is_no_circle(server: ServerProcess, length: int) -> None:
    chain = [task("t0", 1), *(task(f"t{at}", 1, dependsOn={"name": [f"t{at - 1}"]}) for at in range(1, length))]
    assert send(server, JOBS, f"chain-{length}", job(*reversed(chain))) == ""


def test_a_job_may_change_its_size_and_nothing_else(server: ServerProcess) -> None:
    async def scene() -> str:
        async with await Connection.open(server.kubeconfig) as api:
            body = {"apiVersion": JOBS.api_version, "kind": "Job", "metadata": {"name": "sized"}}
            await api.create(JOBS, {**body, "spec": job(task("a", 1))}, "default")
            await api.patch(JOBS, "sized", {"spec": {"tasks": [task("a", 3)], "minAvailable": 2}}, "default")
            try:
                await api.patch(JOBS, "sized", {"spec": {"tasks": [task("b", 3)]}}, "default")
            except ApiRefusal as error:
                return str(error)
            return ""

    assert "may not change fields other than" in asyncio.run(scene())
