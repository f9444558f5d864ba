"""The objects of an MPIJob: hosts, launcher, workers, and what they mount."""

from __future__ import annotations

from typing import Any

import pytest

from phalanx.embedded.controllers.operators.mpi_job import objects

Object = dict[str, Any]


def job(image: str = "mpi", workers: int | None = 2, container: Object | None = None, **spec: Any) -> Object:
    template = {"spec": {"containers": [{"name": "c", "image": image, **(container or {})}]}}
    worker: Object = {"template": template} | ({} if workers is None else {"replicas": workers})
    specs = {"Launcher": {"template": template}, "Worker": worker}
    meta = {"name": "j", "namespace": "ns", "uid": "u"}
    return {
        "apiVersion": "kubeflow.org/v2beta1",
        "kind": "MPIJob",
        "metadata": meta,
        "spec": {"mpiReplicaSpecs": specs, **spec},
    }


def env(template: Object) -> dict[str, str]:
    return {one["name"]: one.get("value", "") for one in template["spec"]["containers"][0]["env"]}


@pytest.mark.parametrize(
    ("kind", "line"),
    [
        ("OpenMPI", "j-worker-0.j.ns.svc slots=2"),
        ("Intel", "j-worker-0.j.ns.svc:2"),
        ("MPICH", "j-worker-0.j.ns.svc:2"),
    ],
)
def test_the_hostfile_has_the_form_of_the_implementation(kind: str, line: str) -> None:
    data = objects.config(job(workers=1, slotsPerWorker=2, mpiImplementation=kind), [])
    assert data["hostfile"] == line + "\n"


def test_the_launcher_is_the_first_host_if_it_runs_ranks() -> None:
    assert objects.hosts(job(runLauncherAsWorker=True)) == [
        "j-launcher.j.ns.svc",
        "j-worker-0.j.ns.svc",
        "j-worker-1.j.ns.svc",
    ]
    worker = objects.make_worker(job(runLauncherAsWorker=True), 0)
    assert worker["metadata"]["labels"][objects.INDEX] == "1"
    assert objects.make_worker(job(), 0)["metadata"]["labels"][objects.INDEX] == "0"


def test_only_running_workers_are_discovered() -> None:
    script = objects.config(job(), ["j-worker-1", "another"])["discover_hosts.sh"]
    assert script == "#!/bin/sh\necho j-worker-1.j.ns.svc:1\n"


@pytest.mark.parametrize(("workers", "count"), [(None, 1), (0, 0), (7, 7)])
def test_how_many_workers(workers: int | None, count: int) -> None:
    assert objects.worker_count(job(workers=workers)) == count


def test_no_job_has_workers_without_bound() -> None:
    with pytest.raises(ValueError, match="10001 workers, but at most 10000 are allowed"):
        objects.worker_count(job(workers=10_001))
    without = job()
    del without["spec"]["mpiReplicaSpecs"]["Worker"]
    assert objects.worker_count(without) == 0


def test_a_worker_of_an_image_runs_sshd_and_one_of_this_machine_the_agent() -> None:
    worker = objects.make_worker(job(), 1)
    [container] = worker["spec"]["containers"]
    assert container["command"] == ["/usr/sbin/sshd", "-De"]
    assert [one["mountPath"] for one in container["volumeMounts"]] == [objects.SSH_AT]
    assert (worker["spec"]["hostname"], worker["spec"]["subdomain"]) == ("j-worker-1", "j")
    [here] = objects.make_worker(job("host"), 1)["spec"]["containers"]
    assert here["command"] == list(objects.SERVES)
    assert [one["mountPath"] for one in here["volumeMounts"]] == [objects.CONFIG_AT]
    [own] = objects.make_worker(job(container={"command": ["run"]}), 1)["spec"]["containers"]
    assert own["command"] == ["run"]


def test_variables_of_the_user_come_after_those_of_the_operator() -> None:
    mine = {"env": [{"name": "K_MPI_JOB_ROLE", "value": "mine"}]}
    [container] = objects.make_worker(job(container=mine), 0)["spec"]["containers"]
    assert [one["value"] for one in container["env"] if one["name"] == "K_MPI_JOB_ROLE"] == ["worker", "mine"]


def test_a_launcher_without_ranks_sees_no_gpus() -> None:
    assert env(objects.launcher_template(job()))["NVIDIA_VISIBLE_DEVICES"] == ""
    assert "NVIDIA_VISIBLE_DEVICES" not in env(objects.launcher_template(job(runLauncherAsWorker=True)))


@pytest.mark.parametrize(
    ("kind", "name", "value"),
    [
        ("OpenMPI", "OMPI_MCA_orte_set_default_slots", "3"),
        ("Intel", "I_MPI_PERHOST", "3"),
        ("MPICH", "HYDRA_HOST_FILE", "/etc/mpi/hostfile"),
    ],
)
def test_the_launcher_tells_its_implementation(kind: str, name: str, value: str) -> None:
    assert env(objects.launcher_template(job(mpiImplementation=kind, slotsPerWorker=3)))[name] == value


def test_on_this_machine_mpirun_calls_no_ssh() -> None:
    here = job("host")
    assert env(objects.launcher_template(here))["OMPI_MCA_plm_rsh_agent"] == "/etc/mpi/remote_shell"
    assert {"remote_shell", "remote_shell.py"} <= set(objects.config(here, []))
    assert "remote_shell" not in objects.config(job(), [])


def test_the_launcher_job_has_the_policy_of_the_run() -> None:
    policy = {"backoffLimit": 0, "activeDeadlineSeconds": 9, "suspend": True, "cleanPodPolicy": "All"}
    spec = objects.make_launcher(job(runPolicy=policy))["spec"]
    assert (spec["backoffLimit"], spec["activeDeadlineSeconds"], spec["suspend"]) == (0, 9, True)
    assert "cleanPodPolicy" not in spec
    assert objects.make_launcher(job())["spec"]["suspend"] is False


def test_exit_codes_are_judged_by_the_controller() -> None:
    made = job()
    made["spec"]["mpiReplicaSpecs"]["Worker"]["restartPolicy"] = "ExitCode"
    assert objects.make_worker(made, 0)["spec"]["restartPolicy"] == "Never"
    assert objects.launcher_template(made)["spec"]["restartPolicy"] == "OnFailure"


def test_each_job_has_a_key_and_a_token_of_its_own() -> None:
    one, other = objects.make_secret(job())["data"], objects.make_secret(job())["data"]
    assert set(one) == {"ssh-privatekey", "ssh-publickey", "rsh-token"}
    assert all(one[name] != other[name] for name in one)


def test_a_template_without_a_container_is_an_error_and_is_left_as_it_is() -> None:
    made = job()
    made["spec"]["mpiReplicaSpecs"]["Worker"]["template"] = {"spec": {}}
    with pytest.raises(ValueError, match="the template of worker has no container"):
        objects.make_worker(made, 0)
    kept = job()
    objects.make_worker(kept, 0)
    assert kept == job()
