"""Pods with `schedulerName: kai-scheduler`, where its dialect is on: grouped, queued and answered as KAI's."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from phalanx.client.kind import DEPLOYMENTS, JOBS, PODS, REPLICA_SETS, Kind
from phalanx.dialects.frame.dialect import Objects
from phalanx.dialects.kai import dialect, kinds
from phalanx.dialects.kai.queues import KaiDefinitions
from tests.kube import double
from tests.kube.double import Object, node
from tests.kube.stage import Stage
from tests.kube.test_bind_barrier import play, settle

ON = frozenset({kinds.NAME})
_LABELS = {"priorityClassName": "priorityClassName"}  # those without KAI's prefix
OPEN = {name: {"quota": -1, "limit": -1, "overQuotaWeight": 1} for name in ("cpu", "memory", "gpu")}


def stage_with(cpu: int = 8, **resources: Any) -> Stage:
    """A node with `cpu` cpus, and the queue `q`, unlimited except for `resources`."""
    stage = Stage(nodes=[node("n1", cpu)], dialects=ON)
    for kind in (kinds.QUEUES, kinds.POD_GROUPS, kinds.TOPOLOGIES):
        stage.api.objects.setdefault(kind, {})
    queue(stage, "q", **resources)
    return stage


def queue(stage: Stage, name: str, parent: str = "", **resources: Any) -> None:
    above = {"parentQueue": parent} if parent else {}
    body = {"metadata": {"name": name}, "spec": {**above, "resources": {**OPEN, **resources}}}
    stage.api.put(kinds.QUEUES, body)


def pod(name: str, cpu: str = "1", *, owner: str = "", group: str = "", **labels: str) -> Object:
    found = double.pod(name, cpu, scheduler=kinds.SCHEDULER_NAME)
    said = {_LABELS.get(key, f"kai.scheduler/{key.replace('_', '-')}"): text for key, text in labels.items()}
    found["metadata"]["labels"] = {"kai.scheduler/queue": "q", **said}
    if group:
        found["metadata"]["annotations"]["pod-group-name"] = group
    if owner:
        kind, _, of = owner.partition("/")
        ref = {"apiVersion": "v1", "kind": kind, "name": of, "uid": f"uid-{of}", "controller": True}
        found["metadata"]["ownerReferences"] = [ref]
    return found


def pod_group(stage: Stage, name: str, **spec: Any) -> None:
    meta = {"name": name, "namespace": "default"}
    stage.api.put(kinds.POD_GROUPS, {"metadata": meta, "spec": {"queue": "q", **spec}})


def status(stage: Stage, name: str) -> Object:
    """That of the PodGroup whose name begins so."""
    found = stage.api.objects[kinds.POD_GROUPS].values()
    one: Object = next((each for each in found if each["metadata"]["name"].startswith(name)), {})
    return one.get("status") or {}


def reasons(stage: Stage, name: str) -> list[str]:
    """Return the reasons of its scheduling condition: KAI's, then Phalanx's code."""
    conditions = status(stage, name).get("schedulingConditions") or ()
    return [
        text
        for one in conditions
        for text in (*(r["reason"] for r in one["reasons"]), one["message"].partition(":")[0])
    ]


def test_a_bare_pod_starts_and_has_a_pod_group_with_its_status() -> None:
    async def scene() -> None:
        stage = stage_with()
        stage.put(pod("one"))
        async with stage.scheduler():
            await stage.until(lambda: stage.api.bound() == {"one": "n1"})
            await stage.until(lambda: bool((status(stage, "pg-one-").get("resourcesStatus") or {}).get("allocated")))
            assert status(stage, "pg-one-")["resourcesStatus"]["allocated"] == {"cpu": "1"}
            (group,) = stage.api.objects[kinds.POD_GROUPS].values()
            assert group["spec"] == {"queue": "q", "minMember": 1, "priorityClassName": "train"}
            assert group["metadata"]["ownerReferences"][0]["name"] == "one"

            def allocated() -> Any:
                return (stage.api.objects[kinds.QUEUES]["q"].get("status") or {}).get("allocated")

            await stage.until(lambda: allocated() == {"cpu": "1"})

    play(scene())


def test_a_missing_limit_is_no_room() -> None:
    async def scene() -> None:
        stage = stage_with(cpu=8)
        queue(stage, "closed", cpu={"quota": 4})
        stage.put(pod("one", queue="closed"))
        async with stage.scheduler():
            await stage.until(lambda: reasons(stage, "pg-one-") == ["OverLimit", "NeverWithinLimit"])
            queue(stage, "closed", cpu={"quota": 4, "limit": -1})
            await stage.until(lambda: "one" in stage.api.bound())

    play(scene())


@pytest.mark.parametrize(("quota", "weight", "parts"), [(0, 3, (6, 2)), (1000, 1, (4, 4))])
def test_departments_divide_the_cluster(quota: int, weight: int, parts: tuple[int, int]) -> None:
    """Quotas of 0 too: capacity beyond all quotas is divided by weight."""

    async def scene() -> None:
        stage = stage_with(cpu=8)
        for name, its_weight in (("x", weight), ("y", 1)):
            queue(stage, name, cpu={"quota": quota, "limit": -1, "overQuotaWeight": its_weight})
            queue(stage, f"{name}-team", name, cpu={"quota": 0, "limit": -1, "overQuotaWeight": 1})
            stage.put(*(pod(f"{name}{number}", queue=f"{name}-team") for number in range(8)))
        async with stage.scheduler():
            await stage.until(lambda: len(stage.api.bound()) == 8)
            assert tuple(sum(one.startswith(name) for one in stage.api.bound()) for name in "xy") == parts

    play(scene())


def test_gpus_that_nobody_has_a_quota_of_are_divided() -> None:
    """As KAI's own example of a queue without limits: gpu quota 0, limit -1."""

    async def scene() -> None:
        stage = stage_with()
        stage.put_node(with_gpus(node("gpus", 8), 4))
        nothing = {"quota": 0, "limit": -1, "overQuotaWeight": 1}
        for name in "xy":
            queue(stage, name, "q", gpu=nothing)
            stage.put(*(of_gpu(pod(f"{name}{number}", queue=name)) for number in range(4)))
        async with stage.scheduler():
            await stage.until(lambda: len(stage.api.bound()) == 4)
            assert [sum(one.startswith(name) for one in stage.api.bound()) for name in "xy"] == [2, 2]

    def with_gpus(one: Object, count: int) -> Object:
        one["status"]["allocatable"]["nvidia.com/gpu"] = str(count)
        return one

    def of_gpu(one: Object) -> Object:
        one["spec"]["containers"][0]["resources"]["requests"]["nvidia.com/gpu"] = "1"
        return one

    play(scene())


def test_what_is_not_preemptible_stays_within_the_quota_and_others_go_over_it() -> None:
    async def scene() -> None:
        stage = stage_with(cpu=8)
        queue(stage, "small", cpu={"quota": 1000, "limit": -1, "overQuotaWeight": 1})
        for number in range(2):
            stage.put(pod(f"kept-{number}", queue="small", preemptibility="non-preemptible"))
        async with stage.scheduler():
            await stage.until(lambda: reasons(stage, "pg-kept-1-") == ["NonPreemptibleOverQuota", "QueueQuota"])
            await stage.until(lambda: set(stage.api.bound()) == {"kept-0"})
            stage.put(pod("spare", queue="small"))
            await stage.until(lambda: set(stage.api.bound()) == {"kept-0", "spare"})

    play(scene())


def test_nothing_is_reclaimed_from_an_unlimited_quota_and_it_takes_what_others_borrow() -> None:
    """`q` is unlimited. `small` has a quota of 2, and reclaims nothing from `q` while all other queues are within their
    quotas."""

    async def scene() -> None:
        stage = stage_with(cpu=4)
        queue(stage, "small", cpu={"quota": 2000, "limit": -1, "overQuotaWeight": 1})
        queue(stage, "guest", cpu={"quota": 0, "limit": -1, "overQuotaWeight": 1})
        stage.put(*(pod(f"guest-{number}", queue="guest") for number in range(4)))
        async with stage.scheduler():
            await stage.until(lambda: len(stage.api.bound()) == 4)
            stage.put(*(pod(f"free-{number}") for number in range(4)))
            await stage.until(lambda: set(stage.api.bound()) == {f"free-{number}" for number in range(4)})
            stage.put(*(pod(f"small-{number}", queue="small") for number in range(2)))
            await stage.until(lambda: reasons(stage, "pg-small-0-") == ["PodSchedulingErrors", "NoRoom"])
            await settle(stage)
            assert set(stage.api.bound()) == {f"free-{number}" for number in range(4)}

    play(scene())


def test_an_unlimited_quota_below_a_department_is_the_departments() -> None:
    """A department of 2 whose project has no bound uses 4 of 4; another department of 2 takes its own back."""

    async def scene() -> None:
        stage = stage_with(cpu=4)
        for name in ("one", "two"):
            queue(stage, name, cpu={"quota": 2000, "limit": -1, "overQuotaWeight": 1})
            queue(stage, f"in-{name}", name)
        stage.put(*(pod(f"a{number}", queue="in-one") for number in range(4)))
        async with stage.scheduler():
            await stage.until(lambda: len(stage.api.bound()) == 4)
            stage.put(*(pod(f"b{number}", queue="in-two") for number in range(4)))
            await stage.until(lambda: {"b0", "b1"} <= set(stage.api.bound()) and len(stage.api.bound()) == 4)
            await settle(stage)
            assert sorted(name[0] for name in stage.api.bound()) == ["a", "a", "b", "b"]

    play(scene())


def test_quotas_of_children_may_exceed_their_parents_and_each_level_counts() -> None:
    """A department of 2 with two projects of 2 each, beside another department of 2, on 4 cpu. Non-preemptible jobs
    stay within the quota of each project. The department reclaims its two cpus, whichever project requests them."""

    async def scene() -> None:
        stage = stage_with(cpu=4)
        for name, parent in (("dept", ""), ("other", ""), ("a", "dept"), ("b", "dept"), ("c", "other")):
            queue(stage, name, parent, cpu={"quota": 2000, "limit": -1, "overQuotaWeight": 1})
        stage.put(*(pod(f"c{number}", queue="c") for number in range(4)))
        async with stage.scheduler():
            await stage.until(lambda: len(stage.api.bound()) == 4)
            for number in range(2):
                for name in ("a", "b"):
                    stage.put(pod(f"{name}{number}", queue=name, preemptibility="non-preemptible"))
            await stage.until(lambda: sum(name.startswith("c") for name in stage.api.bound()) == 2)
            await stage.until(lambda: len(stage.api.bound()) == 4)
            await settle(stage)
            assert sum(name.startswith("c") for name in stage.api.bound()) == 2
            waiting = {"a0", "a1", "b0", "b1"} - set(stage.api.bound())
            assert len(waiting) == 2
            assert all(reasons(stage, f"pg-{name}-")[0] == "NonPreemptibleOverQuota" for name in waiting)

    play(scene())


def test_a_queue_that_is_not_there_or_has_others_below_it_starts_nothing() -> None:
    async def scene() -> None:
        stage = stage_with()
        queue(stage, "orphan", parent="gone")
        queue(stage, "below", parent="q")
        for name, of in (("a", "nowhere"), ("b", "orphan"), ("c", "q")):
            stage.put(pod(name, queue=of))
        stage.put(pod("d", queue="below"))
        async with stage.scheduler():
            await stage.until(lambda: set(stage.api.bound()) == {"d"})
            for name in "abc":
                await stage.until(lambda of=f"pg-{name}-": reasons(stage, of) == ["QueueDoesNotExist", "QueueUnknown"])
            await stage.until(
                lambda: stage.api.objects[kinds.QUEUES]["q"].get("status", {}).get("childQueues") == ["below"]
            )

    play(scene())


def test_a_pod_group_of_a_user_waits_for_its_members_and_starts_them_together() -> None:
    async def scene() -> None:
        stage = stage_with(cpu=4)
        stage.put(pod("a-0", "2", group="g"), pod("other", "3"))
        async with stage.scheduler():
            await stage.until(lambda: set(stage.api.bound()) == {"other"})
            pod_group(stage, "g", minMember=2)
            await stage.until(lambda: reasons(stage, "g") == ["WaitingForMembers"])
            stage.put(pod("a-1", "2", group="g"))
            await stage.until(lambda: reasons(stage, "g") == ["PodSchedulingErrors", "NoRoom"])
            stage.finish("other")
            await stage.until(lambda: set(stage.api.bound()) == {"other", "a-0", "a-1"})
            await stage.until(lambda: not reasons(stage, "g"))

    play(scene())


SUBS = [{"name": "lead", "minMember": 1}, {"name": "work", "minMember": 2}, {"name": "extra", "minMember": 2}]


def test_as_many_sub_groups_as_are_needed_start_whole() -> None:
    async def scene() -> None:
        stage = stage_with(cpu=8)
        pod_group(stage, "g", minSubGroup=2, subGroups=SUBS)
        stage.put(*(pod(f"w-{number}", group="g", subgroup_name="work") for number in range(2)))
        stage.put(pod("x-0", group="g", subgroup_name="extra"))
        async with stage.scheduler():
            await stage.until(lambda: reasons(stage, "g") == ["WaitingForMembers"])
            assert not stage.api.bound()
            stage.put(pod("l-0", group="g", subgroup_name="lead"))
            await stage.until(lambda: {"w-0", "w-1", "l-0"} <= set(stage.api.bound()))

    play(scene())


def test_a_sub_group_goes_to_one_domain_of_its_level() -> None:
    async def scene() -> None:
        stage = stage_with(cpu=1)
        for number, rack in ((2, "r2"), (3, "r2"), (4, "r3")):
            one = node(f"n{number}", 1)
            one["metadata"]["labels"] = {**one["metadata"].get("labels", {}), "rack": rack}
            stage.put_node(one)
        level = {"topology": "t", "requiredTopologyLevel": "racks"}
        pod_group(stage, "g", subGroups=[{"name": "w", "minMember": 2, "topologyConstraint": level}])
        stage.put(*(pod(f"w-{number}", group="g", subgroup_name="w") for number in range(2)))
        async with stage.scheduler():
            await stage.until(lambda: reasons(stage, "g") == ["Invalid"])  # no such Topology
            levels = [{"nodeLabel": "rack", "alias": "racks"}, {"nodeLabel": "kubernetes.io/hostname"}]
            stage.api.put(kinds.TOPOLOGIES, {"metadata": {"name": "t"}, "spec": {"levels": levels}})
            await stage.until(lambda: set(stage.api.bound().values()) == {"n2", "n3"})

    play(scene())


def batch_job(stage: Stage, name: str, minimum: str) -> None:
    """Its controller makes its pods, whose label names the queue."""
    notes = {"kai.scheduler/batch-min-member": minimum} if minimum else {}
    template = {
        "metadata": {"labels": {"kai.scheduler/queue": "q"}},
        "spec": double.pod_spec("1", kinds.SCHEDULER_NAME),
    }
    spec = {"parallelism": 4, "completions": 4, "template": template}
    stage.api.put(
        JOBS, {"metadata": {"name": name, "namespace": "default", "annotations": notes}, "spec": spec, "status": {}}
    )


def bound_of(stage: Stage, name: str) -> int:
    return sum(one.startswith(f"{name}-") for one in stage.api.bound())


def test_a_batch_job_needs_one_pod_or_as_many_as_it_says() -> None:
    async def scene() -> None:
        stage = stage_with(cpu=2)
        batch_job(stage, "whole", "3")
        async with stage.scheduler():
            await stage.until(lambda: bool(reasons(stage, "pg-whole-")))
            await settle(stage)
            assert not stage.api.bound()
            batch_job(stage, "loose", "")
            await stage.until(lambda: bound_of(stage, "loose") == 2)
            stage.put_node(node("n2", 3))
            await stage.until(lambda: bound_of(stage, "whole") >= 3 or bound_of(stage, "loose") == 4)
            stage.put_node(node("n3", 4))
            await stage.until(lambda: bound_of(stage, "whole") == 4 and bound_of(stage, "loose") == 4)

    play(scene())


def test_pods_share_a_gpu_by_the_fraction_that_they_ask_for() -> None:
    async def scene() -> None:
        stage = stage_with()
        one = node("n2", 4)
        one["metadata"]["labels"] = {"nvidia.com/gpu.memory": "8192", "nvidia.com/gpu.count": "1"}
        for amounts in (one["status"]["allocatable"], one["status"].setdefault("capacity", {})):
            amounts["nvidia.com/gpu"] = "1"
        stage.put_node(one)
        shares = {
            "half": ("gpu-fraction", "0.5"),
            "memory": ("gpu-memory", "4096"),
            "more": ("gpu-fraction", "0.30001"),
        }
        for name, (key, value) in shares.items():
            part = pod(name)
            part["metadata"]["annotations"] |= {key: value}
            stage.put(part)
        two = pod("two")
        two["metadata"]["annotations"] |= {"gpu-fraction": "0.1", "gpu-fraction-num-devices": "2"}
        stage.put(two)
        async with stage.scheduler():
            await stage.until(lambda: len(stage.api.bound()) == 2)
            await stage.until(
                lambda: reasons(stage, "pg-two-") == ["PodSchedulingErrors", "NeverFits"]
            )  # one GPU is there
            assert set(stage.api.bound().values()) == {"n2"}  # the only one that has a device
            groups = stage.api.objects[kinds.POD_GROUPS].values()
            half = next(one for one in groups if one["metadata"]["name"].startswith("pg-half-"))
            assert half["status"]["resourcesStatus"]["requested"]["nvidia.com/gpu"] == "500m"
            more = next(one for one in groups if one["metadata"]["name"].startswith("pg-more-"))
            assert more["status"]["resourcesStatus"]["requested"]["nvidia.com/gpu"] == "300m"
            waiting = {"half", "memory", "more"} - set(stage.api.bound())
            assert len(waiting) == 1
            await stage.until(
                lambda: reasons(stage, f"pg-{next(iter(waiting))}-") == ["PodSchedulingErrors", "PlacementRules"]
            )

    play(scene())


def test_without_feature_discovery_fractions_fit_and_amounts_of_memory_wait() -> None:
    async def scene() -> None:
        stage = stage_with()
        one = node("n2", 4)
        one["status"]["allocatable"]["nvidia.com/gpu"] = "1"
        stage.put_node(one)
        for name, (key, value) in {"half": ("gpu-fraction", "0.5"), "memory": ("gpu-memory", "4096")}.items():
            part = pod(name)
            part["metadata"]["annotations"] |= {key: value}
            stage.put(part)
        async with stage.scheduler():
            await stage.until(lambda: list(stage.api.bound()) == ["half"])
            await stage.until(lambda: reasons(stage, "pg-memory-") == ["PodSchedulingErrors", "NeverFits"])
            assert stage.api.objects[PODS]["default/half"]["metadata"]["annotations"]["phalanx.dev/devices"] == "0"

    play(scene())


def test_the_default_queues_are_made_with_the_first_queue() -> None:
    async def scene() -> None:
        stage = stage_with(8)
        there = stage.api.objects[kinds.QUEUES]
        stage.put(pod("theirs"))
        async with stage.scheduler():
            await stage.until(lambda: "theirs" in stage.api.bound())
            await stage.until(lambda: set(there) == {"q", "default-queue", "default-parent-queue"})
            named_none = pod("mine")
            del named_none["metadata"]["labels"]["kai.scheduler/queue"]
            stage.put(named_none)
            await stage.until(lambda: "mine" in stage.api.bound())
            assert there["default-queue"]["spec"]["parentQueue"] == "default-parent-queue"

    play(scene())


def test_a_queue_below_the_default_parent_has_it_made() -> None:
    async def scene() -> None:
        stage = stage_with(8)
        queue(stage, "team", "default-parent-queue")
        stage.put(pod("theirs", queue="team"))
        async with stage.scheduler():
            await stage.until(lambda: "theirs" in stage.api.bound())
            assert "default-parent-queue" in stage.api.objects[kinds.QUEUES]

    play(scene())


def owning(name: str, labels: dict[str, str], above: tuple[Kind, str] | None = None) -> Object:
    meta: Object = {"name": name, "namespace": "default", "uid": f"uid-{name}", "labels": labels}
    if above is not None:
        kind, of = above
        ref = {"apiVersion": kind.api_version, "kind": kind.name, "name": of, "uid": f"uid-{of}", "controller": True}
        meta["ownerReferences"] = [ref]
    return {"metadata": meta, "spec": {}}


def owned(name: str, kind: Kind, of: str, **labels: str) -> Object:
    """A pod whose labels name no queue."""
    found = double.pod(name, scheduler=kinds.SCHEDULER_NAME)
    ref = {"apiVersion": kind.api_version, "kind": kind.name, "name": of, "uid": f"uid-{of}", "controller": True}
    found["metadata"] |= {"ownerReferences": [ref], "labels": labels}
    return found


def test_the_labels_of_the_highest_owner_count_before_those_of_the_pod() -> None:
    """The pods of a Deployment are seen before their ReplicaSet is, and that before the Deployment."""

    async def scene() -> None:
        stage = stage_with(cpu=4)
        for kind in (REPLICA_SETS, DEPLOYMENTS):
            stage.api.objects.setdefault(kind, {})
        stage.controller.collects = False  # their owners are no Jobs
        queue(stage, "closed", cpu={"quota": 0})
        stage.put(owned("web-1", REPLICA_SETS, "web-a", **{"pod-template-hash": "a", "kai.scheduler/queue": "closed"}))
        stage.put(owned("set-0", REPLICA_SETS, "set"))
        async with stage.scheduler():
            await stage.until(lambda: len(stage.cluster.jobs) == 2)
            await settle(stage)
            assert not stage.api.objects[kinds.POD_GROUPS]  # its content is not known yet
            stage.api.put(REPLICA_SETS, owning("set", {"kai.scheduler/queue": "q"}))
            await stage.until(lambda: set(stage.api.bound()) == {"set-0"})
            said = {"kai.scheduler/queue": "closed"}  # a ReplicaSet with a Deployment above it says nothing
            stage.api.put(REPLICA_SETS, owning("web-a", said, (DEPLOYMENTS, "web")))
            await settle(stage)
            assert set(stage.api.bound()) == {"set-0"}
            stage.api.put(DEPLOYMENTS, owning("web", {"kai.scheduler/queue": "q", "priorityClassName": "build"}))
            await stage.until(lambda: set(stage.api.bound()) == {"set-0", "web-1"})
            groups = {one["metadata"]["name"]: one["spec"] for one in stage.api.objects[kinds.POD_GROUPS].values()}
            assert {
                name.partition("-uid")[0]: (one["queue"], one["priorityClassName"]) for name, one in groups.items()
            } == {
                "pg-set": ("q", "train"),
                "pg-web-1": ("q", "build"),
            }

    play(scene())


def test_a_job_set_of_two_billion_replicas_starts_nothing_and_holds_nobody_up() -> None:
    async def scene() -> None:
        stage = stage_with()
        spec = {"suspend": True, "replicatedJobs": [{"name": "w", "replicas": 2_000_000_000, "template": {}}]}
        made = stage.api.put(kinds.JOB_SETS, {"metadata": {"name": "wide", "namespace": "default"}, "spec": spec})
        member = pod("member")
        of = {"jobset-name": "wide", "jobset-uid": made["metadata"]["uid"], "replicatedjob-name": "w"}
        member["metadata"]["labels"] |= {f"jobset.sigs.k8s.io/{key}": text for key, text in of.items()}
        stage.put(member, pod("other"))
        async with stage.scheduler():
            await stage.until(lambda: reasons(stage, "pg-wide-") == ["Invalid"])
            await stage.until(lambda: set(stage.api.bound()) == {"other"})

    play(scene())


def test_one_definition_that_cannot_be_read_holds_up_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    read = dialect.KAI.define

    def define(objects: Objects) -> KaiDefinitions:
        if "odd" in objects.get(kinds.QUEUES, {}):
            raise OverflowError("too much of it")
        return read(objects)

    monkeypatch.setattr(dialect, "KAI", replace(dialect.KAI, define=define))

    async def scene() -> None:
        stage = stage_with()
        queue(stage, "odd")
        stage.put(pod("one", queue="odd"), pod("other"))
        async with stage.scheduler():
            await stage.until(lambda: set(stage.api.bound()) == {"other"})
            await stage.until(lambda: reasons(stage, "pg-one-")[-1:] == ["QueueUnknown"])
            queue(stage, "late")
            stage.put(pod("later", queue="late"))
            await stage.until(lambda: set(stage.api.bound()) == {"other", "later"})

    play(scene())


def test_a_job_that_is_not_preemptible_counts_only_those_like_it_against_the_quota() -> None:
    """It preempts for the limit of its queue, and not because preemptible pods use more than the quota."""

    async def scene(limit: int, left: int) -> None:
        stage = stage_with(10)
        queue(stage, "r", cpu={"quota": 2000, "limit": limit, "overQuotaWeight": 1})
        stage.put(*(pod(f"l{number}", queue="r", priorityClassName="train") for number in range(4)))
        async with stage.scheduler():
            await stage.until(lambda: len(stage.api.bound()) == 4)
            stage.put(*(pod(f"h{number}", queue="r", priorityClassName="build") for number in range(4)))
            await stage.until(lambda: sum(name.startswith("h") for name in stage.api.bound()) == 2)
            await settle(stage)
            assert sum(name.startswith("l") for name in stage.api.bound()) == left
            assert sum(name.startswith("h") for name in stage.api.bound()) == 2

    play(scene(4000, 2))
    play(scene(-1, 4))


def test_a_queue_without_a_weight_reclaims_up_to_its_quota() -> None:
    async def scene() -> None:
        stage = stage_with(10)
        for name in "ab":
            queue(stage, name, cpu={"quota": 2000, "limit": -1, "overQuotaWeight": 0})
        stage.put(*(pod(f"a{number}", queue="a") for number in range(10)))
        async with stage.scheduler():
            await stage.until(lambda: len(stage.api.bound()) == 10)
            stage.put(*(pod(f"b{number}", queue="b") for number in range(10)))
            await stage.until(lambda: sum(name.startswith("b") for name in stage.api.bound()) == 2)
            await settle(stage, 40)
            assert sum(name.startswith("a") for name in stage.api.bound()) == 8

    play(scene())
