"""Each framework's job as Jobs: its roles and counts are Kueue's pod sets, and what is written is read back."""

from __future__ import annotations

from typing import Any

import pytest

from phalanx.dialects.job_kinds.job_set import JOB_SET
from phalanx.dialects.job_kinds.ray import RAY_CLUSTER, RAY_JOB, RAY_SERVICE
from phalanx.dialects.job_kinds.replica_types import MPI_JOB
from phalanx.dialects.job_kinds.spark import SPARK
from phalanx.dialects.job_kinds.supported import FRAMEWORKS
from phalanx.dialects.job_kinds.train_job import TRAIN_JOB

Object = dict[str, Any]


def pod(name: str = "c", cpu: str = "1", **spec: Any) -> Object:
    return {"spec": {"containers": [{"name": name, "resources": {"requests": {"cpu": cpu}}}], **spec}}


def obj(**spec: Any) -> Object:
    return {"metadata": {"name": "t", "namespace": "default", "uid": "u", "resourceVersion": "7"}, "spec": spec}


def replicated(name: str, replicas: int | None, parallelism: int, completions: int | None, **more: Any) -> Object:
    spec: Object = {"parallelism": parallelism, "template": pod()}
    spec |= {} if completions is None else {"completions": completions}
    return {"name": name, "template": {"spec": spec}, **({} if replicas is None else {"replicas": replicas}), **more}


JOBSET = obj(suspend=True, replicatedJobs=[replicated("driver", None, 1, 1), replicated("workers", 2, 4, 3)])
RAY_SPEC = {
    "headGroupSpec": {"template": pod("head")},
    "workerGroupSpecs": [
        {"groupName": "small", "template": pod("worker")},
        {"groupName": "big", "replicas": 2, "numOfHosts": 4, "template": pod("worker")},
        {"groupName": "none", "replicas": 0, "template": pod("worker")},
    ],
}
CLUSTER = obj(suspend=True, **RAY_SPEC)
RAY = obj(suspend=True, rayClusterSpec=RAY_SPEC)
MPI = obj(
    runPolicy={"suspend": True},
    launcherCreationPolicy="WaitForWorkersReady",
    mpiReplicaSpecs={"Worker": {"replicas": 3, "template": pod()}, "Launcher": {"template": pod()}},
)
SPARK_PI = obj(
    type="Scala",
    suspend=True,
    driver={"cores": 1, "memory": "512m", "nodeSelector": {"zone": "a"}},
    executor={"instances": 2, "coreRequest": "1500m", "memory": "8g"},
)
PARTS = pytest.mark.parametrize(
    ("form", "job", "made"),
    [
        (JOB_SET, JOBSET, None),
        (TRAIN_JOB, obj(suspend=True, runtimeRef={"name": "torch"}), JOBSET),
        (RAY_CLUSTER, CLUSTER, None),
        (RAY_JOB, RAY, None),
        (RAY_SERVICE, obj(rayClusterConfig={"suspend": True, **RAY_SPEC}, serveConfigV2="applications: []"), None),
        (MPI_JOB, MPI, None),
        (SPARK, SPARK_PI, None),
    ],
    ids=["JobSet", "TrainJob", "RayCluster", "RayJob", "RayService", "MPIJob", "SparkApplication"],
)


@pytest.mark.parametrize("kind", FRAMEWORKS, ids=lambda kind: kind.name)
@pytest.mark.parametrize("spec", [{}, {"spec": None}, {"spec": {}}], ids=str)
def test_an_object_without_a_spec_has_no_roles_that_raise(kind: Any, spec: Object) -> None:
    form = FRAMEWORKS[kind]
    assert len(form.roles({"metadata": {"name": "t"}, **spec}, None)) <= 2
