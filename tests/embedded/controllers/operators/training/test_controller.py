"""PyTorchJobs on the real embedded API server: their pods, what these are told, and how the job ends."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from phalanx.client.connection import ApiRefusal, Object
from phalanx.client.kind import EVENTS, PODS
from phalanx.embedded.controllers.operators.install import install_operators
from phalanx.embedded.controllers.operators.training.definition import PYTORCH_JOBS, definition
from tests.embedded.apiserver.process import ServerProcess
from tests.embedded.controllers.cluster import Cluster, scenario

pytestmark = pytest.mark.slow  # real processes


def replicas(count: int, policy: str = "Never", **container: Any) -> Object:
    pod = {"containers": [{"name": "pytorch", "image": "i", **container}]}
    return {"replicas": count, "restartPolicy": policy, "template": {"spec": pod}}


async def submit(here: Cluster, master: Object | None = None, worker: Object | None = None, **spec: Any) -> None:
    await install_operators(here.connection)
    specs = {name: one for name, one in (("Master", master), ("Worker", worker)) if one is not None}
    await here.make(PYTORCH_JOBS, "ddp", spec={"pytorchReplicaSpecs": specs, **spec})


async def status(here: Cluster, kind: str, value: str = "True") -> Any:
    """The job's status once that condition is so."""

    def holds(job: Object | None) -> bool:
        found = (job or {}).get("status", {}).get("conditions", ())
        return any((one["type"], one["status"]) == (kind, value) for one in found)

    job = await here.until(lambda: here.get(PYTORCH_JOBS, "ddp"), holds)
    return job["status"]


def environment(pod: Object) -> dict[str, str]:
    return {one["name"]: one["value"] for one in pod["spec"]["containers"][0]["env"]}


async def begin(here: Cluster, pod: Object) -> None:
    body = {"status": {"phase": "Running"}}
    await here.connection.patch(PODS, pod["metadata"]["name"], body, here.namespace, "status")


def test_it_has_succeeded_when_its_master_has(api_server: ServerProcess) -> None:
    async def play(here: Cluster) -> None:
        await submit(here, replicas(1), replicas(1), runPolicy={"cleanPodPolicy": "Running"})
        master, worker = await here.pods(2)
        await begin(here, master)
        await begin(here, worker)
        found = await status(here, "Running")
        counts = {kind: one["active"] for kind, one in found["replicaStatuses"].items()}
        assert counts == {"Master": 1, "Worker": 1}
        await here.end(master)
        found = await status(here, "Succeeded")
        assert "completionTime" in found
        assert [one["status"] for one in found["conditions"] if one["type"] == "Running"] == ["False"]
        assert [pod["metadata"]["name"] for pod in await here.pods(1)] == ["ddp-master-0"]  # the worker was running

    scenario(api_server, play)


def test_without_a_master_all_workers_must_succeed(api_server: ServerProcess) -> None:
    async def play(here: Cluster) -> None:
        await submit(here, worker=replicas(2))
        first, second = await here.pods(2)
        assert environment(second)["MASTER_ADDR"] == "ddp-worker-0"
        await here.end(first)
        await here.end(second)
        await status(here, "Succeeded")

    scenario(api_server, play)


def test_an_elastic_job_succeeds_with_one_worker(api_server: ServerProcess) -> None:
    async def play(here: Cluster) -> None:
        await submit(here, worker=replicas(2), elasticPolicy={"minReplicas": 1, "maxReplicas": 2})
        first, _ = await here.pods(2)
        await here.end(first)
        assert "completionTime" in await status(here, "Succeeded")

    scenario(api_server, play)


def test_without_retries_a_failed_pod_fails_it(api_server: ServerProcess) -> None:
    async def play(here: Cluster) -> None:
        await submit(here, worker=replicas(1, "OnFailure"), runPolicy={"backoffLimit": 0})
        [pod] = await here.pods(1)
        await here.end(pod, "Failed", 1)
        assert "Succeeded" not in {one["type"] for one in (await status(here, "Failed"))["conditions"]}

    scenario(api_server, play)


def test_a_pod_that_failed_fails_it(api_server: ServerProcess) -> None:
    async def play(here: Cluster) -> None:
        await submit(here, replicas(1), replicas(1))
        _, worker = await here.pods(2)
        await here.end(worker, "Failed")
        assert "completionTime" in await status(here, "Failed")
        await here.set(PYTORCH_JOBS, "ddp", spec={"runPolicy": {"ttlSecondsAfterFinished": 0}})
        await here.gone(PYTORCH_JOBS, "ddp")

    scenario(api_server, play)


def counts(job: Object | None) -> Object:
    return (job or {})["status"]["replicaStatuses"]["Worker"]


def test_a_deadline_ends_it(api_server: ServerProcess) -> None:
    async def play(here: Cluster) -> None:
        await submit(here, worker=replicas(1), runPolicy={"activeDeadlineSeconds": 1, "cleanPodPolicy": "All"})
        found = await status(here, "Failed")
        assert found["conditions"][-1]["reason"] == "DeadlineExceeded"
        await here.pods(0)

    scenario(api_server, play)


def test_what_makes_no_sense_is_refused(api_server: ServerProcess) -> None:
    async def play(here: Cluster) -> None:
        await install_operators(here.connection)
        with pytest.raises(ApiRefusal, match="there is at most one Master"):
            await submit(here, replicas(2))
        with pytest.raises(ApiRefusal, match="Master and Worker only"):
            await here.make(PYTORCH_JOBS, "x", spec={"pytorchReplicaSpecs": {"Chief": replicas(1)}})

    scenario(api_server, play)


WRONG: dict[str, Object] = {
    "no spec": {},
    "no replicas": {"spec": {}},
    "a spec that is text": {"spec": "x"},
    "replicas that are a list": {"spec": {"pytorchReplicaSpecs": []}},
    "more than there may be": {"spec": {"pytorchReplicaSpecs": {"Worker": {"replicas": 2_000_000_000}}}},
    "fewer than none": {"spec": {"pytorchReplicaSpecs": {"Worker": {"replicas": -1}}}},
}


def test_what_is_no_training_job_is_refused(api_server: ServerProcess) -> None:
    async def play(here: Cluster) -> None:
        await install_operators(here.connection)
        for name, wrong in WRONG.items():
            with pytest.raises(ApiRefusal) as refusal:
                await here.make(PYTORCH_JOBS, "ddp", **wrong)
            assert refusal.value.code == 422, name

    scenario(api_server, play, settings=None)


def test_a_job_that_cannot_be_dealt_with_says_so_and_others_go_on(tmp_path: Path) -> None:
    """A foreign definition may accept more than Phalanx's: such a job may already be stored."""

    async def play(here: Cluster) -> None:
        for name, wrong in (("a", {}), ("b", {"spec": "x"}), ("c", WRONG["more than there may be"])):
            await here.make(PYTORCH_JOBS, name, **wrong)
        await submit(here, replicas(1))
        (pod,) = await here.pods(1)
        assert pod["metadata"]["name"] == "ddp-master-0"
        jobs = await here.until(lambda: broken(here), lambda jobs: all(job.get("status") for job in jobs))
        conditions = [[(one["type"], one["status"]) for one in job["status"]["conditions"]] for job in jobs]
        assert conditions == [[("ReconcileError", "True")]] * 3
        told = await here.until(lambda: here.list(EVENTS), lambda events: len(about(events)) == 3)
        assert about(told) == {"a", "b", "c"}
        await here.set(PYTORCH_JOBS, "a", spec={"pytorchReplicaSpecs": {"Worker": replicas(1)}})
        await here.pods(2)
        job = await here.until(lambda: here.get(PYTORCH_JOBS, "a"), lambda job: len(job["status"]["conditions"]) > 1)
        assert ("ReconcileError", "False") in {(one["type"], one["status"]) for one in job["status"]["conditions"]}

    async def broken(here: Cluster) -> list[Object]:
        return [job for job in await here.list(PYTORCH_JOBS) if job["metadata"]["name"] != "ddp"]

    def about(events: list[Object]) -> set[str]:
        return {one["involvedObject"]["name"] for one in events if one["reason"] == "ReconcileError"}

    with ServerProcess.started(tmp_path / "data") as server:
        lax = definition()
        anything = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
        lax["spec"]["versions"][0]["schema"]["openAPIV3Schema"] = anything
        server.ask("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", lax)
        scenario(server, play)
