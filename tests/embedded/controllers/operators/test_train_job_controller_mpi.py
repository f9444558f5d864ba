"""TrainJobs of MPI runtimes: the JobSet, the list of hosts and the key that Open MPI and DeepSpeed start with."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from phalanx.client.connection import Object
from phalanx.client.kind import CONFIG_MAPS, JOB_SETS, RESOURCE_QUOTAS, SECRETS, TRAIN_JOBS
from phalanx.embedded.controllers.operators.install import install_operators
from phalanx.embedded.controllers.operators.train_job.controller import RUNTIMES
from phalanx.embedded.controllers.operators.train_job.job_set import RuntimeFault, make_job_set
from phalanx.embedded.controllers.operators.train_job.mpi import companions
from tests.embedded.apiserver.process import ServerProcess
from tests.embedded.controllers.cluster import Cluster, scenario
from tests.embedded.controllers.operators.test_job_set_controller import until_said

TRAINER = {"trainer.kubeflow.org/trainjob-ancestor-step": "trainer"}
REFERENCE = {"kind": "TrainingRuntime", "name": "deepspeed"}
NODE: Object = {"name": "node", "image": "deepspeed", "command": ["/usr/sbin/sshd"], "args": ["-De"]}


def part(name: str, container: Object, **template: Any) -> Object:
    pod = {"restartPolicy": "Never", "containers": [copy.deepcopy(container)]}
    return {"name": name, "template": {**template, "spec": {"template": {"spec": pod}}}}


def runtime(container: Object = NODE, launcher: Object | None = None, **policy: Any) -> Object:
    runs = launcher or {"name": "node", "image": container["image"]}
    parts = [part("node", container), part("launcher", runs, metadata={"labels": TRAINER})]
    mpi = {"numProcPerNode": 1, "sshAuthMountPath": "/home/mpiuser/.ssh", "runLauncherAsNode": True, **policy}
    return {
        "metadata": {"name": "deepspeed"},
        "spec": {"mlPolicy": {"numNodes": 1, "mpi": mpi}, "template": {"spec": {"replicatedJobs": parts}}},
    }


def job(**trainer: Any) -> Object:
    meta = {"name": "t", "namespace": "default", "uid": "u"}
    spec = {"runtimeRef": {"name": "deepspeed"}, "trainer": trainer}
    return {"apiVersion": "trainer.kubeflow.org/v1alpha1", "kind": "TrainJob", "metadata": meta, "spec": spec}


def made(runtime: Object, **trainer: Any) -> dict[str, Object]:
    """The replicated jobs of its JobSet, by name."""
    return {
        one["name"]: one["template"]["spec"] for one in make_job_set(job(**trainer), runtime)["spec"]["replicatedJobs"]
    }


def hosts(runtime: Object, **trainer: Any) -> list[str]:
    of = job(**trainer)
    _, (_, config) = companions(of, runtime["spec"]["mlPolicy"]["mpi"], make_job_set(of, runtime))
    return list(config["data"]["hostfile"].splitlines())


def test_the_launcher_is_a_node_and_runs_what_the_train_job_says() -> None:
    parts = made(runtime(), numNodes=3, command=["mpirun", "train"])
    assert {name: spec.get("parallelism", 1) for name, spec in parts.items()} == {"node": 2, "launcher": 1}
    launcher, node = (parts[name]["template"]["spec"] for name in ("launcher", "node"))
    assert launcher["containers"][0]["command"] == ["mpirun", "train"]
    assert (node["containers"][0]["command"], node["containers"][0].get("env")) == (["/usr/sbin/sshd"], None)
    mounts = [
        {one["name"]: one["mountPath"] for one in pod["containers"][0]["volumeMounts"]} for pod in (launcher, node)
    ]
    key = {"mpi-ssh-auth": "/home/mpiuser/.ssh"}
    assert mounts == [{**key, "mpi-hostfile": "/etc/mpi"}, key]
    assert [one["name"] for one in launcher["volumes"]] == ["mpi-ssh-auth", "mpi-hostfile"]
    assert node["volumes"][0]["secret"]["secretName"] == "t-mpi-ssh-auth"
    env = {one["name"]: one["value"] for one in launcher["containers"][0]["env"]}
    assert env["OMPI_MCA_orte_default_hostfile"] == "/etc/mpi/hostfile"
    assert "OMPI_MCA_plm_rsh_agent" not in env, "there is an sshd in its images"


def test_hosts_are_the_nodes_and_the_launcher_where_it_is_one() -> None:
    assert hosts(runtime(), numNodes=3, numProcPerNode=4) == [
        "t-node-0-0.t slots=4",
        "t-node-0-1.t slots=4",
        "t-launcher-0-0.t slots=4",
    ]
    assert hosts(runtime(runLauncherAsNode=False), numNodes=2) == ["t-node-0-0.t slots=1", "t-node-0-1.t slots=1"]


@pytest.mark.parametrize(("policy", "slots"), [(1, 8), (2, 2)])
def test_a_node_has_a_rank_for_each_gpu_unless_told_otherwise(policy: int, slots: int) -> None:
    asks = {"limits": {"nvidia.com/gpu": "8"}}
    assert hosts(runtime(numProcPerNode=policy), resourcesPerNode=asks)[0] == f"t-node-0-0.t slots={slots}"


def test_a_train_jobs_own_variables_and_mounts_stay() -> None:
    own = [{"name": "data", "mountPath": "/a"}, {"name": "data", "mountPath": "/b"}]
    launcher = {"name": "node", "image": "i", "volumeMounts": own}
    env = [{"name": "OMPI_MCA_plm_rsh_args", "value": "-p 2222"}]
    found = made(runtime(launcher=launcher), env=env)["launcher"]["template"]["spec"]["containers"][0]
    assert found["volumeMounts"][:2] == own
    assert {one["name"]: one["value"] for one in found["env"]}["OMPI_MCA_plm_rsh_args"] == "-p 2222"


def test_pods_of_this_machine_serve_the_remote_shell() -> None:
    here = runtime({"name": "node", "image": "host"})
    launcher, node = (made(here)[name]["template"]["spec"]["containers"][0] for name in ("launcher", "node"))
    assert node["command"] == ["python3", "/etc/mpi/remote_shell.py", "serve"]
    assert [one["mountPath"] for one in node["volumeMounts"]] == ["/etc/mpi"], "this machine's .ssh stays as it is"
    env = {one["name"]: one for one in launcher["env"]}
    assert env["OMPI_MCA_plm_rsh_agent"]["value"] == "/etc/mpi/remote_shell"
    token = {"secretKeyRef": {"name": "t-mpi-ssh-auth", "key": "rsh-token"}}
    assert env["MPI_RSH_TOKEN"]["valueFrom"] == token


@pytest.mark.parametrize(
    ("policy", "trainer", "said"),
    [
        ({"mpiImplementation": "Intel"}, {}, "mpiImplementation Intel is not supported"),
        ({}, {"resourcesPerNode": {"limits": {"nvidia.com/gpu": "many"}}}, "'many' is not a quantity"),
    ],
)
def test_what_is_not_carried_out_is_told(policy: Object, trainer: Object, said: str) -> None:
    with pytest.raises(RuntimeFault, match=said):
        make_job_set(job(**trainer), runtime(**policy))


def test_several_nodes_need_a_replicated_job_of_nodes() -> None:
    alone = runtime()
    del alone["spec"]["template"]["spec"]["replicatedJobs"][0]
    with pytest.raises(
        RuntimeFault, match=r"numNodes 2 with runLauncherAsNode needs a runtime with .* launcher and node"
    ):
        make_job_set(job(numNodes=2), alone)


@pytest.mark.slow
def test_hosts_follow_the_runtime_of_a_suspended_train_job_whose_key_stays(api_server: ServerProcess) -> None:
    async def play(here: Cluster) -> None:
        await install_operators(here.connection)
        await here.make(RUNTIMES["TrainingRuntime"], "deepspeed", spec=runtime()["spec"])
        spec = {"runtimeRef": REFERENCE, "suspend": True}
        await here.make(TRAIN_JOBS, "t", spec={**spec, "trainer": {"numNodes": 2}})
        await here.until(lambda: here.get(JOB_SETS, "t"), lambda one: one is not None)
        key: Any = await here.get(SECRETS, "t-mpi-ssh-auth")
        await here.set(RUNTIMES["TrainingRuntime"], "deepspeed", spec=runtime(numProcPerNode=4)["spec"])
        await here.set(TRAIN_JOBS, "t", metadata={"labels": {"look": "again"}})
        config = await here.until(
            lambda: here.get(CONFIG_MAPS, "t-mpi-hostfile"), lambda one: "slots=4" in one["data"]["hostfile"]
        )
        assert config["data"]["hostfile"].splitlines() == ["t-node-0-0.t slots=4", "t-launcher-0-0.t slots=4"]
        assert await here.get(SECRETS, "t-mpi-ssh-auth") == key
        assert (key["immutable"], set(key["data"])) == (True, {"ssh-privatekey", "ssh-publickey", "rsh-token"})

    scenario(api_server, play)


@pytest.mark.slow
def test_somebody_elses_secret_is_not_taken(api_server: ServerProcess) -> None:
    async def play(here: Cluster) -> None:
        await install_operators(here.connection)
        await here.make(SECRETS, "t-mpi-ssh-auth", data={"ssh-privatekey": "YQ=="})
        await here.make(RUNTIMES["TrainingRuntime"], "deepspeed", spec=runtime()["spec"])
        await here.make(TRAIN_JOBS, "t", spec={"runtimeRef": REFERENCE})
        status = await until_said(here, "Failed", "False", of=TRAIN_JOBS, name="t")
        assert "there is a Secret t-mpi-ssh-auth that it did not create" in status["conditions"][0]["message"]
        assert await here.get(JOB_SETS, "t") is None

    scenario(api_server, play)


@pytest.mark.slow
def test_a_job_set_that_the_server_refuses_is_told(api_server: ServerProcess) -> None:
    async def play(here: Cluster) -> None:
        await install_operators(here.connection)
        await here.make(RESOURCE_QUOTAS, "none", spec={"hard": {"count/jobsets.jobset.x-k8s.io": "0"}})
        await here.make(RUNTIMES["TrainingRuntime"], "deepspeed", spec=runtime()["spec"])
        await here.make(TRAIN_JOBS, "t", spec={"runtimeRef": REFERENCE})

        def told(job: Any) -> bool:
            conditions = (job.get("status") or {}).get("conditions") or ()
            return any(one["message"].startswith("its JobSet could not be created: ") for one in conditions)

        await here.until(lambda: here.get(TRAIN_JOBS, "t"), told)
        assert await here.get(JOB_SETS, "t") is None

    scenario(api_server, play)
