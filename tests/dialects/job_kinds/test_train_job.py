"""A TrainJob over MPI on `phalanx up`, as a gang: its launcher's mpirun starts ranks in itself and in the nodes."""

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
TRAINER = {"trainer.kubeflow.org/trainjob-ancestor-step": "trainer"}


def part(name: str, **more: object) -> Object:
    container = {"name": "node", "image": "host", "resources": {"requests": {"cpu": "100m"}}}
    pod = {"restartPolicy": "Never", "containers": [container]}
    template: Object = {"spec": {"backoffLimit": 0, "template": {"spec": pod}}}
    if name == "launcher":
        template["metadata"] = {"labels": TRAINER}
    return {"name": name, "template": template, **more}


def runtime() -> Object:
    """The shape of the Trainer's own `deepspeed-distributed`, with pods that are processes of this machine."""
    launcher = part("launcher", dependsOn=[{"name": "node", "status": "Ready"}])
    spec = {
        "network": {"publishNotReadyAddresses": True},
        "successPolicy": {"operator": "All", "targetReplicatedJobs": ["launcher"]},
        "replicatedJobs": [part("node"), launcher],
    }
    policy = {"numProcPerNode": 1, "mpiImplementation": "OpenMPI", "runLauncherAsNode": True}
    return {
        "apiVersion": "trainer.kubeflow.org/v1alpha1",
        "kind": "ClusterTrainingRuntime",
        "metadata": {"name": "deepspeed"},
        "spec": {"mlPolicy": {"numNodes": 1, "mpi": policy}, "template": {"spec": spec}},
    }


def job() -> Object:
    told = "echo rank $OMPI_COMM_WORLD_RANK of $OMPI_COMM_WORLD_SIZE on $(hostname)"
    command = ["mpirun", "-np", "6", "sh", "-c", told]
    return {
        "apiVersion": "trainer.kubeflow.org/v1alpha1",
        "kind": "TrainJob",
        "metadata": {"name": "ranks", "labels": {"phalanx.dev/queue": "default"}},
        "spec": {
            "suspend": True,
            "runtimeRef": {"name": "deepspeed"},
            "trainer": {"numNodes": 3, "numProcPerNode": 2, "command": command},
        },
    }


def test_ranks_run_in_the_launcher_and_in_the_nodes(local: Up, tmp_path: Path) -> None:
    file = tmp_path / "job.yaml"
    file.write_text(yaml.safe_dump_all([runtime(), job()]))
    local.kubectl("apply", "-f", str(file))
    local.kubectl("wait", "--for=condition=Complete", "trainjob/ranks", "--timeout=100s")
    lines = local.kubectl("logs", "job/ranks-launcher-0").splitlines()  # at times with warnings of mpirun's
    told = sorted(line for line in lines if line.startswith("rank "))
    pods = ["launcher-0-0", "launcher-0-0", "node-0-0", "node-0-0", "node-0-1", "node-0-1"]
    assert sorted(line.rpartition(" ")[2] for line in told) == [f"ranks-{pod}" for pod in pods]
    assert [line.partition(" on ")[0] for line in told] == [f"rank {rank} of 6" for rank in range(6)]
