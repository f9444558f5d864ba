"""What Kueue's Configuration says of quota, carried out: the file as its users write it, jobs, and what is answered."""

from __future__ import annotations

from typing import Any

from phalanx.client.kind import JOBS, NAMESPACES, NODES
from phalanx.dialects.kueue import kinds
from phalanx.dialects.kueue.tree.configuration import CONFIGURATIONS
from tests.dialects.kueue.written import cluster_queue, group, local_queue, named
from tests.kube.double import Object, node
from tests.kube.stage import Stage
from tests.kube.test_barrier import play
from tests.kube.test_kueue import ON, conditions, job, workload

MIG = "nvidia.com/mig-1g.5gb"
CREDITS = f"""
apiVersion: config.kueue.x-k8s.io/v1beta2
kind: Configuration
resources:
  transformations:
  - input: {MIG}
    strategy: Replace
    outputs: {{credits: 2}}
  - input: cpu
    outputs: {{credits: 500m}}
"""


def configured(text: str, queue: Object, *local_queues: Object) -> Stage:
    """A node of 8 cpu and 8 parts of GPUs; that Configuration, that ClusterQueue, and its LocalQueues."""
    stage = Stage(nodes=[node("n1", 8)], dialects=ON)
    stage.api.objects[NODES]["n1"]["status"]["allocatable"][MIG] = "8"
    stage.api.put(NAMESPACES, named("default"))
    stage.api.put(kinds.RESOURCE_FLAVORS, named("f", spec={}))
    stage.api.put(kinds.CLUSTER_QUEUES, queue)
    for one in local_queues:
        stage.api.put(kinds.LOCAL_QUEUES, one)
    data = {"controller_manager_config.yaml": text}
    stage.api.put(CONFIGURATIONS, named("kueue-manager-config", "kueue-system", data=data))
    return stage


def usage(stage: Stage, kind: Any, key: str) -> dict[str, str]:
    """What a queue's status says that is used of the flavor `f`."""
    status = stage.api.objects[kind][key].get("status") or {}
    (flavor,) = status.get("flavorsUsage") or [{"resources": []}]
    return {one["name"]: one["total"] for one in flavor["resources"]}


def test_quota_counts_what_is_made_of_requests_and_nodes_see_the_requests() -> None:
    def with_part(name: str) -> Object:
        found = job(name, 1)
        found["spec"]["template"]["spec"]["containers"][0]["resources"]["requests"][MIG] = "1"
        return found

    async def scene() -> None:
        queue = cluster_queue("a", group(f={"cpu": 8, "credits": 5}))
        stage = configured(CREDITS, queue, local_queue("l", "a"))
        stage.put(with_part("one"))
        async with stage.scheduler():
            await stage.until(lambda: conditions(stage, "one").get("Admitted") == "True Admitted")
            (given,) = workload(stage, "one")["status"]["admission"]["podSetAssignments"]
            assert given["resourceUsage"] == {"cpu": "1", "credits": "3"}
            assert given["flavors"] == {"cpu": "f", "credits": "f"}
            stage.put(with_part("two"))
            await stage.until(lambda: conditions(stage, "two").get("QuotaReserved") == "False WaitingForQuota")
            asked = workload(stage, "two")["status"]["resourceRequests"]
            assert asked == [{"name": "main", "resources": {"cpu": "1", "credits": "3"}}]
            assert "3 credits on resourceflavor/f of its limit of 5 credits" in stage.reason("two")
            for kind, key in ((kinds.CLUSTER_QUEUES, "a"), (kinds.LOCAL_QUEUES, "default/l")):
                await stage.until(lambda kind=kind, key=key: usage(stage, kind, key) == {"cpu": "1", "credits": "3"})
            assert stage.cluster.columns.allocatable[MIG][0] == 8
            assert stage.cluster.columns.free[MIG][0] == 7
            stage.api.drop(JOBS, "default/one")
            await stage.until(lambda: conditions(stage, "two").get("Admitted") == "True Admitted")

    play(scene())


def test_a_resource_that_is_excluded_uses_no_quota_though_its_queue_has_one() -> None:
    async def scene() -> None:
        queue = cluster_queue("a", group(f={"cpu": 1, "memory": "1Gi"}))
        stage = configured("resources: {excludeResourcePrefixes: [cpu]}", queue, local_queue("l", "a"))
        stage.put(job("one", 2))
        async with stage.scheduler():
            await stage.until(lambda: conditions(stage, "one").get("Admitted") == "True Admitted")
            (given,) = workload(stage, "one")["status"]["admission"]["podSetAssignments"]
            assert given["resourceUsage"] == {}

    play(scene())
