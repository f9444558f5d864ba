"""Pods of training jobs: their ranks, names, labels and variables."""

from __future__ import annotations

from typing import Any

import pytest

from phalanx.embedded.controllers.operators.training import definition
from phalanx.embedded.controllers.operators.training.definition import replicas, spelt_out

Object = dict[str, Any]


def job(workers: int | None = 2, ports: list[Object] | None = None, **spec: Any) -> Object:
    container: Object = {"name": "pytorch", "image": "i", "env": [{"name": "RANK", "value": "mine"}]}
    template = {"spec": {"containers": [container | ({} if ports is None else {"ports": ports})]}}
    worker: Object = {"template": template} | ({} if workers is None else {"replicas": workers})
    meta = {"name": "j", "namespace": "ns", "uid": "u"}
    return {
        "apiVersion": "kubeflow.org/v1",
        "kind": "PyTorchJob",
        "metadata": meta,
        "spec": {"pytorchReplicaSpecs": {"Worker": worker, "Master": {"template": template}}, **spec},
    }


def env(made: Object, rank: int = 1) -> dict[str, str]:
    replica = [*replicas(made)][rank]
    [container] = definition.make_pod(made, replica)["spec"]["containers"]
    return {one["name"]: one["value"] for one in reversed(container["env"])}


def test_ranks_are_counted_over_all_types_the_master_first() -> None:
    assert [(one.name, one.rank) for one in replicas(job())] == [
        ("j-master-0", 0),
        ("j-worker-0", 1),
        ("j-worker-1", 2),
    ]


def test_the_first_rank_is_the_master_by_its_label() -> None:
    first, second, _ = (definition.labels(job(), one) for one in replicas(job()))
    assert first["training.kubeflow.org/job-role"] == "master"
    assert "training.kubeflow.org/job-role" not in second


@pytest.mark.parametrize(("workers", "count"), [(None, 1), (0, 0), (3, 3)])
def test_how_many_replicas(workers: int | None, count: int) -> None:
    assert definition.count(definition.replica_specs(job(workers))["Worker"]) == count


def test_no_job_has_replicas_without_bound() -> None:
    with pytest.raises(ValueError, match="at most 10000 are allowed"):
        definition.count({"replicas": definition.MOST_REPLICAS + 1})


@pytest.mark.parametrize(
    ("processes", "world", "each"), [(None, "3", "auto"), ("gpu", "3", "gpu"), ("4", "12", "4"), ("²", "3", "²")]
)
def test_the_world_counts_processes_where_their_number_is_known(processes: str | None, world: str, each: str) -> None:
    spec = {} if processes is None else {"nprocPerNode": processes}
    found = env(job(**spec))
    assert (found["WORLD_SIZE"], found["PET_NPROC_PER_NODE"], found["PET_NNODES"]) == (world, each, "3")
    assert (found["MASTER_ADDR"], found["PET_NODE_RANK"]) == ("j-master-0", "1")


def test_variables_of_the_user_come_last() -> None:
    [container] = definition.make_pod(job(), next(replicas(job())))["spec"]["containers"]
    assert [one["value"] for one in container["env"] if one["name"] == "RANK"] == ["0", "mine"]


def test_the_port_is_the_one_that_has_the_operators_name() -> None:
    assert definition.port(job(), "Worker") == 23456
    named = [{"name": "metrics", "containerPort": 1}, {"name": "pytorchjob-port", "containerPort": 2}]
    assert definition.port(job(ports=named), "Worker") == 2
    [port] = definition.make_service(job(ports=named), next(replicas(job())))["spec"]["ports"]
    assert port["port"] == 2


def test_an_elastic_job_meets_at_its_first_pod() -> None:
    found = env(job(elasticPolicy={"minReplicas": 1, "maxRestarts": 0, "nProcPerNode": 2}))
    assert (found["PET_NNODES"], found["PET_RDZV_ENDPOINT"]) == ("1:3", "j-master-0:23456")
    assert (found["PET_MAX_RESTARTS"], found["PET_NPROC_PER_NODE"], found["PET_RDZV_BACKEND"]) == ("0", "2", "c10d")
    assert "PET_RDZV_ID" not in found


def test_a_pod_keeps_what_its_template_says_and_the_template_stays() -> None:
    made = job()
    template = made["spec"]["pytorchReplicaSpecs"]["Worker"]["template"]
    template["metadata"] = {"labels": {"team": "a"}, "annotations": {"note": "n"}}
    pod = definition.make_pod(made, [*replicas(made)][1])
    assert (pod["metadata"]["labels"]["team"], pod["metadata"]["annotations"]) == ("a", {"note": "n"})
    assert [one["name"] for one in template["spec"]["containers"][0]["env"]] == ["RANK"]


def test_templates_that_a_schema_leaves_open_get_their_types() -> None:
    template = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    schema = {"properties": {"mpiReplicaSpecs": {"additionalProperties": {"properties": {"template": template}}}}}
    told = spelt_out(schema)["properties"]["mpiReplicaSpecs"]["additionalProperties"]["properties"]["template"]
    assert "spec" in told["properties"]
    assert "properties" not in template, "the schema itself stays as it is"
    assert spelt_out({"properties": {"other": template}}) == {"properties": {"other": template}}
