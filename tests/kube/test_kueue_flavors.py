"""Kueue's ResourceFlavors and covered resources on a cluster: which flavor pods get, and when a flavor may go."""

from __future__ import annotations

from phalanx.client.kind import JOBS, NAMESPACES, NODES
from phalanx.dialects.kueue import kinds
from phalanx.dialects.kueue.tree.configuration import CONFIGURATIONS
from tests.dialects.kueue.written import cluster_queue, group, local_queue, named
from tests.kube.double import node
from tests.kube.stage import Stage
from tests.kube.test_bind_barrier import play
from tests.kube.test_kueue import ON, conditions, job, stage_with, workload


def test_pods_are_given_a_flavor_of_each_resource_group_and_all_their_selectors() -> None:
    async def scene() -> None:
        stage = Stage(nodes=[node("n1", 8), node("n2", 8)], dialects=ON)
        for name, arch in (("n1", "x86"), ("n2", "arm")):
            stage.api.objects[NODES][name]["metadata"]["labels"] = {"arch": arch, "memory": "fast"}
        stage.api.put(NAMESPACES, named("default"))
        pools = {"x86": {"arch": "x86"}, "arm": {"arch": "arm"}, "fast": {"memory": "fast"}}
        for name, labels in pools.items():
            stage.api.put(kinds.RESOURCE_FLAVORS, named(name, spec={"nodeLabels": labels}))
        groups = (group(x86={"cpu": 1}, arm={"cpu": 4}), group(fast={"memory": "8Gi"}))
        stage.api.put(kinds.CLUSTER_QUEUES, cluster_queue("a", *groups))
        stage.api.put(kinds.LOCAL_QUEUES, local_queue("l", "a"))
        found = job("one", 2)
        found["spec"]["template"]["spec"]["containers"][0]["resources"]["requests"]["memory"] = "1Gi"
        stage.put(found)
        async with stage.scheduler():
            await stage.until(lambda: conditions(stage, "one").get("Admitted") == "True Admitted")
            (given,) = workload(stage, "one")["status"]["admission"]["podSetAssignments"]
            assert given["flavors"] == {"cpu": "arm", "memory": "fast"}
            template = stage.api.objects[JOBS]["default/one"]["spec"]["template"]
            assert template["spec"]["nodeSelector"] == {"arch": "arm", "memory": "fast"}
            await stage.until(lambda: usage(stage) == {"x86": "0", "arm": "2", "fast": "2Gi"})

    def usage(stage: Stage) -> dict[str, str]:
        status = stage.api.objects[kinds.CLUSTER_QUEUES]["a"].get("status") or {}
        return {each["name"]: each["resources"][0]["total"] for each in status.get("flavorsUsage") or ()}

    play(scene())


def test_a_flavor_stays_while_a_cluster_queue_names_it() -> None:
    async def scene() -> None:
        stage = stage_with(3)
        async with stage.scheduler():
            await stage.until(lambda: finalizers(stage) == ["kueue.x-k8s.io/resource-in-use"])
            stage.api.drop(kinds.CLUSTER_QUEUES, "a")
            await stage.until(lambda: finalizers(stage) == [])

    play(scene())


def test_a_flavor_that_is_deleted_while_it_is_let_go_goes() -> None:
    """Its user's deletion reaches the server just before the write that lets go of it, which is refused then."""

    async def scene() -> None:
        stage = stage_with(3)

        def delete_first(write: str) -> None:
            found = stage.api.objects[kinds.RESOURCE_FLAVORS]["f"]
            if write == "patch resourceflavors/f" and "a" not in stage.api.objects[kinds.CLUSTER_QUEUES]:
                stage.fault = lambda write: None
                going = {**found["metadata"], "deletionTimestamp": "2026-01-01T01:00:00Z"}
                stage.api.put(kinds.RESOURCE_FLAVORS, {**found, "metadata": going})

        stage.fault = delete_first
        async with stage.scheduler():
            await stage.until(lambda: finalizers(stage) == ["kueue.x-k8s.io/resource-in-use"])
            stage.api.drop(kinds.CLUSTER_QUEUES, "a")
            await stage.until(lambda: finalizers(stage) == [])

    play(scene())


def finalizers(stage: Stage) -> list[str]:
    """Return the finalizers of the flavor."""
    return list(stage.api.objects[kinds.RESOURCE_FLAVORS]["f"]["metadata"].get("finalizers") or ())


def test_a_resource_that_needs_no_quota_is_not_in_the_admission() -> None:
    async def scene() -> None:
        stage = stage_with(3)
        stage.api.objects[NODES]["n1"]["status"]["allocatable"]["example.com/licence"] = "4"
        data = {"controller_manager_config.yaml": "resources: {quotaCheckStrategy: IgnoreUndeclared}"}
        stage.api.put(CONFIGURATIONS, named("kueue-manager-config", "kueue-system", data=data))
        one = job("one", 2)
        one["spec"]["template"]["spec"]["containers"][0]["resources"]["requests"]["example.com/licence"] = "1"
        stage.put(one)
        async with stage.scheduler():
            await stage.until(lambda: conditions(stage, "one").get("Admitted") == "True Admitted")
            (given,) = workload(stage, "one")["status"]["admission"]["podSetAssignments"]
            assert (given["flavors"], given["resourceUsage"]) == ({"cpu": "f"}, {"cpu": "2"})

    play(scene())
