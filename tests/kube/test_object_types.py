"""`kube/read/workload/object_types.py`: the field of a framework's job that has a wrong type, and its value."""

from __future__ import annotations

from typing import Any

import pytest

from phalanx.client.kind import JOB_SETS, Kind
from phalanx.dialects.job_kinds.ray import RAY_CLUSTER, RAY_JOB, RAY_SERVICE
from phalanx.dialects.job_kinds.replica_types import TRAINING
from phalanx.dialects.job_kinds.spark import SPARK
from phalanx.kube.read.workload.object_types import FieldTypeError, check_object

TENSORFLOW = next(each.kind for each in TRAINING if each.kind.name == "TFJob")
NUMBER = "is not a whole number from 0 to 2147483647"


def workers(**fields: Any) -> dict[str, Any]:
    return {"tfReplicaSpecs": {"Worker": fields}}


def pods(**fields: Any) -> dict[str, Any]:
    return workers(template={"spec": fields})


def groups(*found: Any) -> dict[str, Any]:
    return {"workerGroupSpecs": list(found)}


@pytest.mark.parametrize(
    ("kind", "spec", "error"),
    [
        (TENSORFLOW, workers(replicas="many"), f"tfReplicaSpecs.Worker.replicas: 'many' {NUMBER}"),
        (TENSORFLOW, workers(replicas=-1), f"tfReplicaSpecs.Worker.replicas: -1 {NUMBER}"),
        (TENSORFLOW, {"tfReplicaSpecs": "x"}, "tfReplicaSpecs: 'x' is not a mapping of names to values"),
        (TENSORFLOW, {"runPolicy": {"suspend": "yes"}}, "runPolicy.suspend: 'yes' is neither true nor false"),
        (
            TENSORFLOW,
            pods(tolerations=[{}, {"key": {"a": 1}}]),
            "tfReplicaSpecs.Worker.template.spec.tolerations[1].key: {'a': 1} is not text",
        ),
        (
            TENSORFLOW,
            pods(containers=[{"resources": {"requests": {"cpu": [1]}}}]),
            "tfReplicaSpecs.Worker.template.spec.containers[0].resources.requests.cpu: [1] is not a quantity",
        ),
        (RAY_CLUSTER.kind, {"workerGroupSpecs": {}}, "workerGroupSpecs: {} is not a list"),
        (RAY_JOB.kind, {"rayClusterSpec": groups({})}, "rayClusterSpec.workerGroupSpecs[0]: it has no groupName"),
        (
            RAY_SERVICE.kind,
            {"rayClusterConfig": groups({"groupName": 5})},
            "rayClusterConfig.workerGroupSpecs[0].groupName: 5 is not text",
        ),
        (SPARK.kind, {"executor": {"instances": "x" * 100}}, f"executor.instances: '{'x' * 56}… {NUMBER}"),
        (SPARK.kind, {"driver": {"gpu": {"name": "g"}}}, "driver.gpu: it has no quantity"),
    ],
)
def test_the_error_names_the_field_and_the_value(kind: Kind, spec: Any, error: str) -> None:
    with pytest.raises(FieldTypeError) as raised:
        check_object(kind, {"metadata": {}, "spec": spec})
    assert str(raised.value) == f"spec.{error}"


@pytest.mark.parametrize(
    ("kind", "spec"),
    [
        (TENSORFLOW, {}),
        (TENSORFLOW, {"runPolicy": None, "tfReplicaSpecs": {"PS": {"replicas": None, "template": {}}}, "more": [1]}),
        (RAY_JOB.kind, {"rayClusterSpec": groups({"groupName": "w", "replicas": 2, "minReplicas": 0})}),
        (SPARK.kind, {"driver": {"cores": 1, "memory": "1g", "gpu": {"name": "g", "quantity": 1}}}),
        (JOB_SETS, {"replicatedJobs": "of a kind without types"}),
    ],
)
def test_what_an_operator_accepts_is_accepted(kind: Kind, spec: Any) -> None:
    check_object(kind, {"metadata": {}, "spec": spec})
