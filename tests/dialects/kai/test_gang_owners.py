"""`dialects/kai/grouper.py`: the number of pods of an owner's gang, by role."""

from __future__ import annotations

from phalanx.dialects.frame.dialect import RoleClaim
from phalanx.dialects.kai.grouper import ROOT, shape_of
from tests.dialects.kai.test_queues import owner


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
