"""Pods of training jobs are told who they are, and are made again as their policy says."""

from __future__ import annotations

from typing import Any

import pytest

from phalanx.client.connection import Object
from phalanx.client.kind import PODS, SERVICES
from phalanx.embedded.controllers.operators.install import install_operators
from phalanx.embedded.controllers.operators.training.definition import PYTORCH_JOBS
from tests.embedded.apiserver.process import ServerProcess
from tests.embedded.controllers.cluster import Cluster, scenario
from tests.embedded.controllers.operators.training.test_controller import status

pytestmark = pytest.mark.slow  # real processes


def replicas(count: int, policy: str = "Never", **container: Any) -> Object:
    pod = {"containers": [{"name": "pytorch", "image": "i", **container}]}
    return {"replicas": count, "restartPolicy": policy, "template": {"spec": pod}}


async def submit(here: Cluster, master: Object | None = None, worker: Object | None = None, **spec: Any) -> None:
    await install_operators(here.connection)
    specs = {name: one for name, one in (("Master", master), ("Worker", worker)) if one is not None}
    await here.make(PYTORCH_JOBS, "ddp", spec={"pytorchReplicaSpecs": specs, **spec})


def environment(pod: Object) -> dict[str, str]:
    return {one["name"]: one["value"] for one in pod["spec"]["containers"][0]["env"]}


async def begin(here: Cluster, pod: Object) -> None:
    body = {"status": {"phase": "Running"}}
    await here.connection.patch(PODS, pod["metadata"]["name"], body, here.namespace, "status")


def test_its_pods_are_told_who_they_are(api_server: ServerProcess) -> None:
    async def play(here: Cluster) -> None:
        own = {"env": [{"name": "MINE", "value": "$(RANK)"}]}
        await submit(here, replicas(1), replicas(2, **own), nprocPerNode="4")
        master, first, second = await here.pods(3)
        names = [pod["metadata"]["name"] for pod in (master, first, second)]
        assert names == ["ddp-master-0", "ddp-worker-0", "ddp-worker-1"]
        assert environment(second) == {
            "PYTHONUNBUFFERED": "1",
            "MASTER_ADDR": "ddp-master-0",
            "MASTER_PORT": "23456",
            "WORLD_SIZE": "12",
            "RANK": "2",
            "PET_MASTER_ADDR": "ddp-master-0",
            "PET_MASTER_PORT": "23456",
            "PET_NNODES": "3",
            "PET_NODE_RANK": "2",
            "PET_NPROC_PER_NODE": "4",
            "MINE": "$(RANK)",
        }
        labels = first["metadata"]["labels"]
        assert labels["training.kubeflow.org/job-name"] == "ddp"
        assert labels["training.kubeflow.org/replica-type"] == "worker"
        service = await here.get(SERVICES, "ddp-master-0")
        assert service is not None
        assert service["spec"]["clusterIP"] == "None"
        assert service["spec"]["selector"].items() <= master["metadata"]["labels"].items()

    scenario(api_server, play)


def test_an_evicted_worker_is_made_again(api_server: ServerProcess) -> None:
    async def play(here: Cluster) -> None:
        await submit(here, worker=replicas(2, "OnFailure"))
        first, second = await here.pods(2)
        for pod in (first, second):
            await begin(here, pod)
        await here.connection.delete(PODS, first["metadata"]["name"], here.namespace)
        uid = first["metadata"]["uid"]
        await here.until(lambda: here.list(PODS), lambda pods: len(pods) == 2 and pods[0]["metadata"]["uid"] != uid)
        conditions = (await here.get(PYTORCH_JOBS, "ddp") or {})["status"]["conditions"]
        assert "Failed" not in {one["type"] for one in conditions}

    scenario(api_server, play)


def test_while_suspended_it_has_no_pods(api_server: ServerProcess) -> None:
    async def play(here: Cluster) -> None:
        await submit(here, replicas(1), replicas(1), runPolicy={"suspend": True})
        assert "startTime" not in await status(here, "Suspended")
        assert await here.list(PODS) == []
        await here.set(PYTORCH_JOBS, "ddp", spec={"runPolicy": {"suspend": False}})
        await here.pods(2)
        assert "startTime" in await status(here, "Suspended", "False")
        await here.set(PYTORCH_JOBS, "ddp", spec={"runPolicy": {"suspend": True}})
        await here.pods(0)
        await status(here, "Suspended")

    scenario(api_server, play)


@pytest.mark.parametrize(
    ("policy", "code", "ends"),
    [
        ("ExitCode", 1, "Failed"),
        ("ExitCode", 137, "Restarting"),
        ("OnFailure", 1, "Restarting"),
        ("Always", 1, "Restarting"),
    ],
)
def test_failed_pods_are_made_again_as_their_policy_says(
    api_server: ServerProcess, policy: str, code: int, ends: str
) -> None:
    async def play(here: Cluster) -> None:
        await submit(here, worker=replicas(1, policy))
        [pod] = await here.pods(1)
        uid = pod["metadata"]["uid"]
        assert pod["spec"]["restartPolicy"] == ("Never" if policy == "ExitCode" else policy)
        await here.end(pod, "Failed", code)
        await status(here, ends)
        if ends == "Restarting":
            await here.until(lambda: here.list(PODS), lambda pods: pods and pods[0]["metadata"]["uid"] != uid)
            await here.until(
                lambda: here.get(PYTORCH_JOBS, "ddp"), lambda job: counts(job).keys() == {"active", "selector"}
            )

    scenario(api_server, play)


def counts(job: Object | None) -> Object:
    return (job or {})["status"]["replicaStatuses"]["Worker"]
