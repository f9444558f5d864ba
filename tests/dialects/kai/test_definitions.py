"""KAI's queues as Phalanx queues, the grouping of pods, and the minimum of a gang."""

from __future__ import annotations

from typing import Any

import pytest

from phalanx.client.kind import PRIORITY_CLASSES
from phalanx.dialects.frame.dialect import Object, RoleClaim
from phalanx.dialects.kai import kinds
from phalanx.dialects.kai.fields.migration import moved
from phalanx.dialects.kai.gang.grouper import Group, OwnerName, grouped, options_of
from phalanx.dialects.kai.gang.owners import ROOT, shape_of
from phalanx.dialects.kai.queues import GPU, KaiDefinitions, define
from phalanx.model.pod import MAX_AMOUNT
from phalanx.model.queue import BorrowingPolicy, Queue


def defined(*queues: tuple[str, Object], **others: Any) -> KaiDefinitions:
    found = {name: {"metadata": {"name": name}, "spec": spec} for name, spec in queues}
    return define({kinds.QUEUES: found, **others})


def queue(found: KaiDefinitions, name: str) -> Queue:
    return next(each for each in found.queues if each.name == f"kai/{name}")


def test_quotas_have_our_units_and_a_missing_limit_is_none_of_it() -> None:
    resources = {"cpu": {"quota": 1500, "limit": -1, "overQuotaWeight": 2}, "memory": {"quota": -1, "limit": 64}}
    one = queue(defined(("q", {"resources": resources})), "q")
    (quota,) = one.quotas
    assert dict(quota.guaranteed) == {"cpu": 1500, "memory": 64_000_000, GPU: 0}
    assert dict(quota.limit) == {"memory": 64_000_000, GPU: 0}
    assert dict(one.weights) == {"cpu": 2.0, "memory": 0.0, GPU: 0.0}
    assert one.priority == 100
    assert one.borrow is BorrowingPolicy.PREEMPTIBLE


def test_an_unlimited_quota_is_as_much_as_the_queues_above_it_have() -> None:
    def spec(parent: str = "", quota: int = -1, limit: int = -1) -> Object:
        above = {"parentQueue": parent} if parent else {}
        return {**above, "resources": {"cpu": {"quota": quota, "limit": limit}}}

    found = defined(
        ("open", spec()),
        ("free", spec("open")),
        ("capped", spec("open", limit=3000)),
        ("below", spec("capped")),
        ("department", spec(quota=4000)),
        ("project", spec("department")),
        ("team", spec("project")),
        ("shared", spec(quota=0)),
        ("guest", spec("shared")),
    )
    cpu = {each.name: dict(each.quotas[0].guaranteed).get("cpu") for each in found.queues}
    assert cpu == {
        "kai/open": MAX_AMOUNT,
        "kai/free": MAX_AMOUNT,
        "kai/capped": 3000,
        "kai/below": 3000,
        "kai/department": 4000,
        "kai/project": 4000,
        "kai/team": 4000,
        "kai/shared": None,
        "kai/guest": 0,
    }


def test_an_amount_beyond_all_bounds_is_a_fault_of_its_own_queue() -> None:
    """1e308 megabytes are more bytes than a number can have."""
    found = defined(("q", {"resources": {"memory": {"quota": 1e308, "limit": -1}}}), ("beside", {}))
    (quota,) = queue(found, "q").quotas
    assert MAX_AMOUNT < dict(quota.guaranteed)["memory"] < 10 * MAX_AMOUNT
    assert queue(found, "beside").quotas


def test_minimum_runtimes_are_inherited_from_above_and_from_the_shard() -> None:
    shard = {"default": {"metadata": {"name": "default"}, "spec": {"minRuntime": {"preemptMinRuntime": "5s"}}}}
    found = defined(
        ("top", {"reclaimMinRuntime": "1h30m"}),
        ("low", {"parentQueue": "top", "preemptMinRuntime": "2m"}),
        ("alone", {}),
    )
    assert queue(found, "low").preemption.min_run_s == 5400.0
    assert queue(found, "low").parent == "kai/top"
    with_shard = define({kinds.QUEUES: {"alone": {"metadata": {"name": "alone"}, "spec": {}}}, kinds.SHARDS: shard})
    assert queue(with_shard, "alone").preemption.min_run_s == 5.0


def test_a_queue_and_those_below_it_move_pods_where_a_word_of_ours_says_so() -> None:
    def one(name: str, said: str = "", parent: str = "") -> Object:
        annotations = {"phalanx.dev/consolidate": said} if said else {}
        spec = {"parentQueue": parent} if parent else {}
        return {"metadata": {"name": name, "annotations": annotations}, "spec": spec}

    queues = (one("top", "true"), one("low", parent="top"), one("still", "false", "top"), one("beside"))
    found = define({kinds.QUEUES: {each["metadata"]["name"]: each for each in queues}})
    moved = [each.name for each in found.queues if each.preemption.consolidate]
    assert moved == ["kai/top", "kai/low"]


def test_what_hangs_below_a_missing_queue_or_below_itself_is_in_no_tree() -> None:
    found = defined(("a", {"parentQueue": "gone"}), ("b", {"parentQueue": "a"}), ("c", {"parentQueue": "c"}))
    assert found.queues == ()
    assert {name: each.fault for name, each in found.known.items()} == {
        "a": "the queue gone, above a, does not exist",
        "b": "the queue gone, above b, does not exist",
        "c": "the queue c, above c, stands above itself",
    }


def test_the_classes_of_the_chart_are_known_and_those_of_the_cluster_count_over_them() -> None:
    classes = {"train": {"value": 60}, "mine": {"value": 7, "globalDefault": True}}
    found = define({PRIORITY_CLASSES: {name: {"metadata": {}, **one} for name, one in classes.items()}})
    assert found.priorities == {"train": 60, "build-preemptible": 75, "build": 100, "inference": 125, "mine": 7}
    assert found.default_priority == 7


def meta(owner: str = "", **labels: str) -> Object:
    kind, _, name = owner.partition("/")
    ref = {"apiVersion": "v1", "kind": kind, "name": name, "uid": "u1", "controller": True}
    said = {key.replace("__", "/").replace("_", "-"): text for key, text in labels.items()}
    return {"name": "p", "uid": "u0", "labels": said, **({"ownerReferences": [ref]} if owner else {})}


POD = OwnerName("v1", "Pod", "p", "u0")


@pytest.mark.parametrize(
    ("found", "group"),
    [
        (meta(), Group("pg-p-u0", POD)),
        (meta("Job/j"), Group("pg-j-u1", OwnerName("v1", "Job", "j", "u1"))),
        (meta("ReplicaSet/r"), Group("pg-r-u1", OwnerName("v1", "ReplicaSet", "r", "u1"))),
        (meta("ReplicaSet/r", pod_template_hash="x"), Group("pg-p-u0", POD._replace(kind="Deployment"))),
        (meta("Pod/driver", spark_app_selector="s", spark_app_name="n"), Group("s", POD)),
        (
            meta("PyTorchJob/t", **{"training.kubeflow.org/replica-type": "Worker"}),
            Group("pg-t-u1", OwnerName("v1", "PyTorchJob", "t", "u1"), "worker"),
        ),
    ],
)
def test_the_kind_of_the_owner_says_who_is_grouped(found: Object, group: Group) -> None:
    assert grouped(found) == group


def test_a_pod_says_queue_part_of_a_gpu_and_pod_group() -> None:
    said = meta(kai_scheduler__queue="q") | {"annotations": {"gpu-memory": "2000"}}
    said["labels"] = {"kai.scheduler/queue": "q"}
    found = options_of(said, kinds.SCHEDULER_NAME)
    assert found["phalanx.dev/queue"] == "kai/q"
    assert found["phalanx.dev/gpu-memory"] == "2000Mi"
    assert found["phalanx.dev/job"] == "kai:pg-p-u0"
    assert options_of(said, "default-scheduler") == {}
    said["labels"] = {"project": "team", "kai.scheduler/node-pool": "a100"}
    assert options_of(said, kinds.SCHEDULER_NAME)["phalanx.dev/queue"] == "kai/team-a100"
    said["labels"] = {}
    assert options_of(said, kinds.SCHEDULER_NAME)["phalanx.dev/queue"] == "kai/default-queue"


def owner(spec: Object, **notes: str) -> Object:
    return {"metadata": {"annotations": {f"kai.scheduler/{key.replace('_', '-')}": t for key, t in notes.items()}}} | {
        "spec": spec
    }


def test_how_many_pods_start_together_stands_on_the_owner() -> None:
    assert shape_of("Job", owner({"parallelism": 6})).minimum == 1
    assert shape_of("Job", owner({"parallelism": 6}, batch_min_member="2")).minimum == 2
    replicas = {"Master": {"replicas": 1}, "Worker": {"replicas": 3}}
    whole = shape_of("PyTorchJob", owner({"pytorchReplicaSpecs": replicas}))
    assert whole.roles == {"master": RoleClaim(minimum=1), "worker": RoleClaim(minimum=3)}
    assert whole.members == 4
    elastic = {"pytorchReplicaSpecs": replicas, "elasticPolicy": {"minReplicas": 2}}
    assert shape_of("PyTorchJob", owner(elastic)).members == 2
    policy = {"runPolicy": {"schedulingPolicy": {"minAvailable": 3}}}
    assert shape_of("PyTorchJob", owner(elastic | policy)).members == 3
    ray = {"workerGroupSpecs": [{"groupName": "small", "minReplicas": 2, "numOfHosts": 2}]}
    assert shape_of("RayCluster", owner(ray)).members == 5
    assert shape_of("Notebook", owner({})).members == 1


def test_a_job_set_is_a_tree() -> None:
    jobs = [{"name": "w", "replicas": 2, "template": {"spec": {"parallelism": 3}}}, {"name": "d", "template": {}}]
    found = shape_of("JobSet", owner({"replicatedJobs": jobs}))
    assert found.groups[0] == {"name": ROOT, "minimum": 2}
    assert {name: one.minimum for name, one in found.roles.items()} == {
        "w-replica-0": 3,
        "w-replica-1": 3,
        "d-replica-0": 1,
    }
    ordered = owner({"replicatedJobs": jobs, "startupPolicy": {"startupPolicyOrder": "InOrder"}})
    assert shape_of("JobSet", ordered).groups[0]["minimum"] == 1
    wide = shape_of("JobSet", owner({"replicatedJobs": [*jobs, {"name": "x", "replicas": 2_000_000_000}]}))
    assert (wide.groups, wide.roles) == ((), {})
    assert wide.fault.startswith("its JobSet has 2000000003 replicas")


def test_what_objects_become_is_said_before_they_move() -> None:
    pod = {"kind": "Pod", "metadata": {"name": "p"}, "spec": {"schedulerName": "kai-scheduler"}}
    other = {"kind": "Pod", "metadata": {"name": "x"}, "spec": {}}
    one = {
        "apiVersion": "scheduling.run.ai/v2",
        "kind": "Queue",
        "metadata": {"name": "q"},
        "spec": {"parentQueue": "r"},
    }
    queue_said, pod_said = moved([one, pod, other])
    assert queue_said.becomes == "the queue kai/q below kai/r"
    assert queue_said.notes[0].startswith("it starts nothing as it stands here: the queue r, above q, does not exist")
    assert "no room at all" in queue_said.notes[1]
    assert pod_said.becomes == "jobs of the queue kai/default-queue, which is not here"
