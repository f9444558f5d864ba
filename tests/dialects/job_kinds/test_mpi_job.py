"""An MPIJob on `phalanx up`, as a gang: mpirun in its launcher starts ranks in its workers, without sshd."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import yaml

from phalanx.client.connection import Object
from tests.cli.upstart import Up

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(shutil.which("mpirun") is None, reason="mpirun is not installed (apt-get install openmpi-bin)"),
]


def container(milli: int, *command: str) -> Object:
    asks = {"requests": {"cpu": f"{milli}m"}}
    return {"name": "c", "image": "host", "resources": asks} | ({"command": [*command]} if command else {})


def job(workers: int, *, name: str = "ranks", ranks: int | None = None, **more: object) -> Object:
    told = "echo rank $OMPI_COMM_WORLD_RANK of $OMPI_COMM_WORLD_SIZE on $(hostname)"
    launcher = container(50, "mpirun", "-np", str(ranks or workers), "sh", "-c", told)
    pods = {"Launcher": {"spec": {"containers": [launcher]}}, "Worker": {"spec": {"containers": [container(100)]}}}
    replicas = {name: {"replicas": 1, "template": pod} for name, pod in pods.items()}
    replicas["Worker"]["replicas"] = workers
    return {
        "apiVersion": "kubeflow.org/v2beta1",
        "kind": "MPIJob",
        "metadata": {"name": name, "labels": {"phalanx.dev/queue": "default"}},
        "spec": {"runPolicy": {"suspend": True, "cleanPodPolicy": "Running"}, "mpiReplicaSpecs": replicas, **more},
    }


def test_ranks_run_in_the_workers_and_in_a_launcher_that_is_one(local: Up, tmp_path: Path) -> None:
    file = tmp_path / "job.yaml"
    both = job(1, name="both", ranks=2, runLauncherAsWorker=True)
    file.write_text(yaml.safe_dump_all([job(3), both]))
    local.kubectl("apply", "-f", str(file))
    local.kubectl("wait", "--for=condition=Succeeded", "mpijob/ranks", "--timeout=100s")
    lines = local.kubectl("logs", "job/ranks-launcher").splitlines()  # at times with warnings of mpirun's
    told = sorted(line for line in lines if line.startswith("rank "))
    assert told == [f"rank {rank} of 3 on ranks-worker-{rank}" for rank in range(3)]
    events = local.kubectl("get", "events", "-o", "jsonpath={.items[*].message}")
    assert "Bound its 4 pods, together" in events
    local.kubectl("wait", "--for=condition=Succeeded", "mpijob/both", "--timeout=100s")
    lines = local.kubectl("logs", "job/both-launcher").splitlines()
    told = sorted(line for line in lines if line.startswith("rank "))
    assert told == ["rank 0 of 2 on both-launcher", "rank 1 of 2 on both-worker-0"]
