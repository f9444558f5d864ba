"""MPIJobs on the real embedded API server: what they have, by the names and words of their operator."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from phalanx.client.connection import Object
from phalanx.client.kind import CONFIG_MAPS, JOBS, MPI_JOBS, PODS, SECRETS, SERVICES
from phalanx.embedded.controllers.operators.install import install_operators
from tests.embedded.apiserver.process import ServerProcess
from tests.embedded.controllers.cluster import Cluster, scenario
from tests.embedded.controllers.operators.test_job_set_controller import jobs, until_said

pytestmark = pytest.mark.slow  # real processes
LABEL = "training.kubeflow.org/"


def role(image: str = "i", **more: Any) -> Object:
    pod = {"containers": [{"name": "c", "image": image, **more.pop("container", {})}]}
    return {"template": {"spec": pod}, **more}


async def submit(here: Cluster, workers: int = 2, image: str = "i", **spec: Any) -> None:
    await install_operators(here.connection)
    launcher = role(image, container={"command": ["mpirun", "true"]})
    replicas = {"Launcher": launcher, "Worker": role(image, replicas=workers)}
    await here.make(MPI_JOBS, "m", spec={"mpiReplicaSpecs": replicas, **spec})


async def said(here: Cluster, kind: str, value: str = "True") -> Any:
    return await until_said(here, kind, value, MPI_JOBS, "m")


def env(pod: Object) -> dict[str, str]:
    return {one["name"]: one.get("value", "") for one in pod["spec"]["containers"][0]["env"]}


async def run(here: Cluster, *names: str) -> None:
    """Their pods run, as a kubelet says it."""
    for pod in await here.list(PODS):
        if pod["metadata"]["name"] in names:
            ready = [{"type": "Ready", "status": "True"}]
            body = {"status": {"phase": "Running", "conditions": ready}}
            await here.connection.patch(PODS, pod["metadata"]["name"], body, here.namespace, "status")


def test_its_objects_are_named_as_its_operator_does(api_server: ServerProcess) -> None:
    async def play(here: Cluster) -> None:
        await submit(here, slotsPerWorker=4)
        await jobs(here, "m-launcher")
        pods = await here.pods(3)
        workers = [pod for pod in pods if "-worker-" in pod["metadata"]["name"]]
        assert [pod["metadata"]["name"] for pod in workers] == ["m-worker-0", "m-worker-1"]
        assert workers[1]["metadata"]["labels"][f"{LABEL}job-role"] == "worker"
        assert workers[1]["metadata"]["labels"][f"{LABEL}replica-index"] == "1"
        assert (workers[0]["spec"]["hostname"], workers[0]["spec"]["subdomain"]) == ("m-worker-0", "m")
        assert workers[0]["spec"]["containers"][0]["command"] == ["/usr/sbin/sshd", "-De"]
        (launcher,) = [pod for pod in pods if pod not in workers]
        assert env(launcher)["OMPI_MCA_orte_default_hostfile"] == "/etc/mpi/hostfile"
        assert env(launcher)["OMPI_MCA_orte_set_default_slots"] == "4"
        mounts = {one["name"]: one["mountPath"] for one in launcher["spec"]["containers"][0]["volumeMounts"]}
        assert (mounts["ssh-auth"], mounts["mpi-job-config"]) == ("/root/.ssh", "/etc/mpi")
        hosts = [f"m-worker-{index}.m.{here.namespace}.svc" for index in range(2)]
        found = await here.get(CONFIG_MAPS, "m-config")
        assert found is not None
        assert found["data"]["hostfile"] == f"{hosts[0]} slots=4\n{hosts[1]} slots=4\n"
        assert set(found["data"]) == {"hostfile", "discover_hosts.sh"}
        secret, service = await here.get(SECRETS, "m-ssh"), await here.get(SERVICES, "m")
        assert secret is not None
        assert service is not None
        assert base64.b64decode(secret["data"]["ssh-publickey"]).startswith(b"ecdsa-sha2-nistp521 ")
        assert service["spec"]["selector"][f"{LABEL}job-name"] == "m"

    scenario(api_server, play)


def test_it_runs_when_all_of_it_does_and_ends_as_its_launcher_ends(api_server: ServerProcess) -> None:
    async def play(here: Cluster) -> None:
        await submit(here, runPolicy={"cleanPodPolicy": "Running"})
        pods = await here.pods(3)
        launcher = next(pod for pod in pods if "launcher" in pod["metadata"]["name"])
        await run(here, "m-worker-0", launcher["metadata"]["name"])
        script = f"#!/bin/sh\necho m-worker-0.m.{here.namespace}.svc:1\n"
        await here.until(
            lambda: here.get(CONFIG_MAPS, "m-config"), lambda one: one["data"]["discover_hosts.sh"] == script
        )
        assert not any(one["type"] == "Running" for one in (await said(here, "Created"))["conditions"])
        await run(here, "m-worker-1")
        status = await said(here, "Running")
        assert status["replicaStatuses"] == {"Launcher": {"active": 1}, "Worker": {"active": 2}}
        await here.end(launcher)
        status = await said(here, "Succeeded")
        assert [(one["type"], one["status"]) for one in status["conditions"]] == [
            ("Created", "True"),
            ("Running", "False"),
            ("Succeeded", "True"),
        ]
        assert status["completionTime"]
        await here.pods(1)  # the workers ran still

    scenario(api_server, play)


def test_a_launcher_that_fails_for_good_fails_it(api_server: ServerProcess) -> None:
    async def play(here: Cluster) -> None:
        await submit(here, runPolicy={"backoffLimit": 0})
        pods = await here.pods(3)
        await here.end(next(pod for pod in pods if "launcher" in pod["metadata"]["name"]), "Failed")
        status = await said(here, "Failed")
        (failed,) = [one for one in status["conditions"] if one["type"] == "Failed"]
        assert failed["reason"] == "MPIJobFailed"
        assert "BackoffLimitExceeded" in failed["message"]

    scenario(api_server, play)


def test_while_it_is_suspended_it_has_a_launcher_job_and_no_pods(api_server: ServerProcess) -> None:
    async def play(here: Cluster) -> None:
        await submit(here, runPolicy={"suspend": True})
        (job,) = await jobs(here, "m-launcher")
        assert job["spec"]["suspend"] is True
        await said(here, "Suspended")
        assert await here.list(PODS) == []
        spec = {"mpiReplicaSpecs": {"Launcher": {"template": {"spec": {"nodeSelector": {"pool": "a"}}}}}}
        await here.set(MPI_JOBS, "m", spec={"runPolicy": {"suspend": False}, **spec})
        pods = await here.pods(3)
        launcher = next(pod for pod in pods if "launcher" in pod["metadata"]["name"])
        assert launcher["spec"]["nodeSelector"] == {"pool": "a"}
        await said(here, "Suspended", "False")
        await here.set(MPI_JOBS, "m", spec={"runPolicy": {"suspend": True}})
        await here.pods(0)

    scenario(api_server, play)


def test_the_launcher_can_wait_for_the_workers(api_server: ServerProcess) -> None:
    async def play(here: Cluster) -> None:
        await submit(here, launcherCreationPolicy="WaitForWorkersReady")
        await here.pods(2)
        assert await here.list(JOBS) == []
        await run(here, "m-worker-0", "m-worker-1")
        await jobs(here, "m-launcher")

    scenario(api_server, play)


def test_where_no_sshd_is_the_workers_serve_a_shell_of_the_job_s_own(api_server: ServerProcess) -> None:
    async def play(here: Cluster) -> None:
        await submit(here, image="host")
        pods = await here.pods(3)
        worker = next(pod for pod in pods if pod["metadata"]["name"] == "m-worker-0")
        assert worker["spec"]["containers"][0]["command"] == ["python3", "/etc/mpi/remote_shell.py", "serve"]
        launcher = next(pod for pod in pods if "launcher" in pod["metadata"]["name"])
        assert env(launcher)["OMPI_MCA_plm_rsh_agent"] == "/etc/mpi/remote_shell"
        tokens = [one for one in worker["spec"]["containers"][0]["env"] if one["name"] == "MPI_RSH_TOKEN"]
        assert tokens[0]["valueFrom"]["secretKeyRef"] == {"name": "m-ssh", "key": "rsh-token"}

    scenario(api_server, play)


def test_somebody_else_s_objects_are_left_alone(api_server: ServerProcess) -> None:
    async def play(here: Cluster) -> None:
        await here.make(CONFIG_MAPS, "m-config", data={"a": "b"})
        await submit(here)

        async def event() -> Any:
            events = (await here.connection.request("GET", f"/api/v1/namespaces/{here.namespace}/events"))["items"]
            return [one["message"] for one in events if one["involvedObject"]["name"] == "m"]

        await here.until(event, lambda found: any("m-config that it did not create" in text for text in found))
        there = await here.get(CONFIG_MAPS, "m-config")
        assert there is not None
        assert there["data"] == {"a": "b"}

    scenario(api_server, play)
