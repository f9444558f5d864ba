"""The Workloads of pods that a set makes: named after the set, as Kueue's users look for them."""

from __future__ import annotations

from phalanx.dialects.kueue import kinds
from phalanx.dialects.kueue.answers.names import workload_name
from tests.dialects.kueue.written import cluster_queue, group
from tests.kube import double
from tests.kube.double import Object
from tests.kube.stage import Stage
from tests.kube.test_bind_barrier import play, settle
from tests.kube.test_kueue import stage_with

LWS = "leaderworkerset.sigs.k8s.io/"
KUEUE = "kueue.x-k8s.io/"


def pod_of_lws(name: str, group: str, role: str) -> Object:
    found = double.pod(name)
    labels = {f"{LWS}name": "serve", f"{LWS}group-index": group, f"{LWS}template-revision-hash": "r1"}
    found["metadata"]["labels"] = {f"{KUEUE}queue-name": "l", **labels}
    found["metadata"]["annotations"] = {f"{KUEUE}pod-group-total-count": "2", f"{KUEUE}role-hash": role}
    return found


def named_set(name: str, uid: str) -> Object:
    return {"metadata": {"name": name, "namespace": "default", "uid": uid}, "spec": {}}


def condition(stage: Stage, key: str, kind: str) -> str:
    status = stage.api.objects[kinds.WORKLOADS].get(key, {}).get("status") or {}
    return next((one["status"] for one in status.get("conditions") or () if one["type"] == kind), "")


def test_a_group_of_a_leader_worker_set_has_the_workload_that_is_named_after_it() -> None:
    name = workload_name("LeaderWorkerSet", "leaderworkerset.x-k8s.io", "serve-1", "uid-of-serve")

    async def scene() -> None:
        stage = stage_with(1)
        stage.put(pod_of_lws("serve-1", "1", "leader"), pod_of_lws("serve-1-1", "1", "worker"))
        stage.api.put(kinds.LEADER_WORKER_SETS, named_set("other", "uid-of-other"))
        async with stage.scheduler():
            await settle(stage)
            assert stage.api.objects[kinds.WORKLOADS] == {}  # without a known uid it has no name yet
            stage.api.put(kinds.LEADER_WORKER_SETS, named_set("serve", "uid-of-serve"))
            await stage.until(lambda: condition(stage, f"default/{name}", "QuotaReserved") == "False")
            activate(stage, False)  # what users write there is read back
            await settle(stage)
            stage.api.put(kinds.CLUSTER_QUEUES, cluster_queue("a", group(f={"cpu": 3})))
            await settle(stage)
            assert stage.api.bound() == {}
            activate(stage, True)
            await stage.until(lambda: condition(stage, f"default/{name}", "Admitted") == "True")
            (found,) = stage.api.objects[kinds.WORKLOADS].values()
            said = found["metadata"]["annotations"]
            assert said[f"{KUEUE}job-owner-gvk"] == "leaderworkerset.x-k8s.io/v1, Kind=LeaderWorkerSet"
            assert (said[f"{KUEUE}job-owner-name"], said[f"{KUEUE}component-workload-index"]) == ("serve", "1")
            assert found["metadata"]["labels"] == {f"{KUEUE}job-uid": "uid-of-serve"}
            sets = [(one["name"], one["count"]) for one in found["spec"]["podSets"]]
            assert sorted(sets) == [("leader", 1), ("worker", 1)]

    def activate(stage: Stage, active: bool) -> None:
        (found,) = stage.api.objects[kinds.WORKLOADS].values()
        stage.api.put(kinds.WORKLOADS, {**found, "spec": {**found["spec"], "active": active}})

    play(scene())


def test_the_pods_of_a_stateful_set_have_the_workload_that_is_named_after_it() -> None:
    name = workload_name("StatefulSet", "apps", "db", "uid-of-db")

    async def scene() -> None:
        stage = stage_with(3)
        owner = {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "db", "uid": "uid-of-db", "controller": True}
        for each in ("db-0", "db-1"):
            one = double.pod(each)
            one["metadata"]["labels"] = {f"{KUEUE}queue-name": "l"}
            one["metadata"]["annotations"] = {f"{KUEUE}pod-group-name": "db", f"{KUEUE}pod-group-total-count": "2"}
            one["metadata"]["ownerReferences"] = [owner]
            stage.put(one)
        async with stage.scheduler():
            await stage.until(lambda: condition(stage, f"default/{name}", "Admitted") == "True")
            (found,) = stage.api.objects[kinds.WORKLOADS].values()
            assert found["metadata"]["annotations"][f"{KUEUE}job-owner-name"] == "db"
            assert [(one["name"], one["count"]) for one in found["spec"]["podSets"]] == [("main", 2)]

    play(scene())
