"""ElasticQuotas as queues of our tree, whose pods are of which, and how much each may use by Koordinator's count."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from phalanx.client.kind import NODES
from phalanx.dialects.frame.dialect import Object
from phalanx.dialects.koordinator import kinds
from phalanx.dialects.koordinator.dialect import KOORDINATOR
from phalanx.dialects.koordinator.quota.runtime import child_requests, request, runtimes
from phalanx.dialects.koordinator.quota.tree import ElasticQuota, QuotaDefinitions
from phalanx.model.queue import BorrowingPolicy, Queue, QueueOrder, Quota, WithinQueue

Q = "quota.scheduling.koordinator.sh"


def quota(spec: Object, labels: Object | None = None, **notes: object) -> Object:
    said = {f"{Q}/{key.replace('_', '-')}": json.dumps(value) for key, value in notes.items()}
    meta = {"labels": {f"{Q}/{key}": text for key, text in (labels or {}).items()}, "annotations": said}
    return {"metadata": meta, "spec": spec}


def defined(**quotas: Object) -> QuotaDefinitions:
    """`namespace__name=quota`."""
    found = {key.replace("__", "/"): obj for key, obj in quotas.items()}
    return KOORDINATOR.define({kinds.ELASTIC_QUOTAS: found})


def queue(found: QuotaDefinitions, name: str) -> Queue:
    return next(each for each in found.queues if each.name == f"koordinator/{name}")


def test_a_quota_is_a_queue_below_its_parent() -> None:
    spec = {"min": {"cpu": 4}, "max": {"cpu": 10, "memory": "1Gi"}}
    found = defined(s__a=quota(spec, {"parent": "top", "allow-lent-resource": "false"}, shared_weight={"cpu": "3"}))
    assert queue(found, "a") == Queue(
        name="koordinator/a",
        parent="koordinator/top",
        quotas=(Quota(guaranteed=(("cpu", 4000),), limit=(("cpu", 10000), ("memory", 1 << 30)), lend=(("cpu", 0),)),),
        weights=(("cpu", 3000.0),),
        borrow=BorrowingPolicy.PREEMPTIBLE,
        preemption=queue(found, "a").preemption,
    )
    assert queue(found, "a").preemption.within is WithinQueue.LOWER


def test_the_built_in_quotas_are_there_with_the_first_one() -> None:
    assert defined().queues == ()
    found = defined(s__a=quota({"max": {"cpu": 1}}))
    root = "koordinator/koordinator-root-quota"
    assert {each.name: each.parent for each in found.queues} == {
        "koordinator/a": root,
        root: "",
        "koordinator/koordinator-system-quota": "",
        "koordinator/koordinator-default-quota": root,
    }
    assert queue(found, kinds.ROOT).order is QueueOrder.FAIR
    assert queue(found, kinds.DEFAULT).preemption.within is WithinQueue.NEVER


def test_an_admission_annotation_lowers_the_limit() -> None:
    found = defined(s__a=quota({"max": {"cpu": 8}}, admission={"cpu": 5, "memory": 7}))
    assert queue(found, "a").quotas[0].limit == (("cpu", 5000), ("memory", 7))


def test_what_cannot_be_read_counts_as_not_said() -> None:
    odd = {"metadata": {"annotations": {f"{Q}/shared-weight": "{", f"{Q}/namespaces": "7"}}, "spec": {"max": 3}}
    found = defined(s__a=odd)
    assert queue(found, "a").quotas == ()
    assert found.quotas["a"].namespaces == ()


def test_an_amount_beyond_all_bounds_is_the_fault_of_its_own_quota() -> None:
    found = queue(defined(ns__huge=quota({"max": {"cpu": 1e308}})), "huge")
    assert dict(found.weights) == {"cpu": 2.0**53}
    assert dict(found.quotas[0].limit)["cpu"] > 2**53


def test_which_quota_a_pod_uses() -> None:
    found = defined(
        s__a=quota({}, namespaces=["one", "two"]), two__two=quota({}), s__other=quota({}, namespaces=["two"])
    )
    assert found.quota("anywhere", "a") == "a"
    assert found.quota("one", "") == "a"
    assert found.quota("two", "") == "two"  # of the namespace's name, in it
    assert found.quota("three", "missing") == kinds.DEFAULT
    assert defined().quota("one", "a") == ""


def test_a_profile_makes_a_root_where_no_quota_of_the_name_is() -> None:
    profile = {"metadata": {}, "spec": {"quotaName": "zone-k", "nodeSelector": {}}}
    found = KOORDINATOR.define({kinds.QUOTA_PROFILES: {"kube-system/p": profile}})
    assert found.quotas["zone-k"].is_parent


def test_a_profile_keeps_its_root_at_a_share_of_the_nodes_that_it_selects() -> None:
    spec = {"quotaName": "zone-k", "resourceRatio": "0.9", "nodeSelector": {"matchLabels": {"zone": "k"}}}
    profile = {"metadata": {"name": "p"}, "spec": {**spec, "quotaLabels": {f"{Q}/tree-id": "k"}}}
    amounts = {"cpu": "10", "memory": "1Gi", "pods": "110"}
    nodes = {
        name: {"metadata": {"name": name, "labels": {"zone": zone}}, "status": {"allocatable": amounts}, "spec": said}
        for name, zone, said in (("a", "k", {}), ("b", "k", {"unschedulable": True}), ("c", "other", {}))
    }
    objects = {kinds.QUOTA_PROFILES: {"ns/p": profile}, NODES: nodes}
    found = KOORDINATOR.define(objects)
    [root] = [each for each in KOORDINATOR.statuses(found, (), objects, "") if each.body is not None]
    assert (root.kind, root.key) == (kinds.ELASTIC_QUOTAS, "ns/zone-k")
    assert root.spec is not None
    assert root.spec["min"] == {"cpu": "18", "memory": str(1932735283)}
    assert root.metadata == {"labels": {f"{Q}/tree-id": "k", f"{Q}/is-root": "true", f"{Q}/profile": "p"}}
    assert root.annotations == {
        f"{Q}/total-resource": '{"cpu":"20","memory":"2Gi"}',
        f"{Q}/unschedulable-resource": '{"cpu":"10","memory":"1Gi"}',
    }
    after = KOORDINATOR.define({**objects, kinds.ELASTIC_QUOTAS: {"ns/zone-k": root.body}})
    assert queue(after, "zone-k").quotas[0].limit == (("cpu", 20000), ("memory", 2 << 30))
    elsewhere = KOORDINATOR.define({**objects, kinds.ELASTIC_QUOTAS: {"beside/zone-k": quota({})}})
    assert [each for each in KOORDINATOR.statuses(elsewhere, (), objects, "") if each.body is not None] == []


def test_of_two_profiles_of_one_quota_the_first_by_name_makes_it() -> None:
    profiles = {key: {"metadata": {"name": key[-1]}, "spec": {"quotaName": "k"}} for key in ("ns/b", "ns/a", "other/c")}
    objects = {kinds.QUOTA_PROFILES: profiles}
    [root] = [each for each in KOORDINATOR.statuses(KOORDINATOR.define(objects), (), objects, "") if each.body]
    assert root.metadata is not None
    assert (root.key, root.metadata["labels"][f"{Q}/profile"]) == ("ns/k", "a")


@pytest.mark.parametrize("said", [None, "half", "0", "-1", "7", "1e400"])
def test_a_profile_without_a_share_that_can_be_has_all(said: object) -> None:
    profile = {"metadata": {"name": "p"}, "spec": {"quotaName": "k", "resourceRatio": said}}
    node = {"metadata": {"name": "a"}, "status": {"allocatable": {"cpu": "3"}}}
    objects = {kinds.QUOTA_PROFILES: {"ns/p": profile}, NODES: {"a": node}}
    [root] = [each for each in KOORDINATOR.statuses(KOORDINATOR.define(objects), (), objects, "") if each.body]
    assert root.spec is not None
    assert root.spec["min"] == {"cpu": "3", "memory": "0"}


def elastic(name: str, least: int, most: int, *, weight: int = 0, lent: bool = True, parent: str = "") -> ElasticQuota:
    return ElasticQuota(
        name=name,
        key=f"s/{name}",
        parent=parent or kinds.ROOT,
        least={"cpu": least},
        most={"cpu": most},
        weights={"cpu": weight or most},
        lent=lent,
    )


@pytest.mark.parametrize(
    ("quotas", "asks", "total", "expected"),
    [
        ([("a", 4, 10), ("b", 4, 10)], {"a": 10, "b": 2}, 10, {"a": 8, "b": 2}),  # what b leaves is lent
        ([("a", 4, 10), ("b", 4, 10)], {"a": 10, "b": 9}, 12, {"a": 6, "b": 6}),
        ([("a", 2, 9), ("b", 2, 3)], {"a": 9, "b": 9}, 8, {"a": 5, "b": 3}),  # by weight, which is max: 3 : 1
        ([("a", 6, 9), ("b", 2, 9)], {"a": 9, "b": 9}, 4, {"a": 3, "b": 1}),  # min cut in proportion
        ([("a", 4, 10), ("b", 0, 10)], {"b": 10}, 10, {"a": 0, "b": 10}),
    ],
)
def test_runtime_is_min_and_a_part_of_the_rest(
    quotas: list[tuple[str, int, int]], asks: dict[str, int], total: int, expected: dict[str, int]
) -> None:
    found = {name: elastic(name, least, most) for name, least, most in quotas}
    inner = child_requests(found, {name: {"cpu": amount} for name, amount in asks.items()})
    runtime = runtimes(found, inner, {"cpu": total})
    assert {name: runtime[name]["cpu"] for name in found} == expected


def test_what_is_not_lent_is_kept_and_children_divide_their_parents_runtime() -> None:
    found = {
        "kept": elastic("kept", 4, 10, lent=False),
        "top": elastic("top", 2, 10),
        "x": elastic("x", 1, 10, parent="top"),
        "y": elastic("y", 1, 10, parent="top"),
    }
    inner = child_requests(found, {"x": {"cpu": 10}, "y": {"cpu": 13}})
    assert inner["top"] == {"cpu": 20}  # what y asks for is capped by its max
    assert [request(found[name], inner[name]) for name in ("kept", "y")] == [{"cpu": 4}, {"cpu": 13}]
    runtime = runtimes(found, inner, {"cpu": 10})
    assert [runtime[name]["cpu"] for name in ("kept", "top", "x", "y")] == [4, 6, 3, 3]


def test_quotas_below_each_other_in_a_circle_have_no_runtime_and_stop_nobody() -> None:
    found = {"a": elastic("a", 1, 2, parent="b"), "b": elastic("b", 1, 2, parent="a"), "c": elastic("c", 1, 5)}
    runtime = runtimes(found, child_requests(found, {"c": {"cpu": 3}}), {"cpu": 9})
    assert runtime["c"] == {"cpu": 3}
    assert "a" not in runtime


def test_the_quotas_beside_the_tree_have_their_max_and_no_part_of_what_is_shared() -> None:
    found = {name: elastic(name, 0, 7) for name in (kinds.DEFAULT, kinds.SYSTEM, "a")}
    inner = child_requests(found, {name: {"cpu": 9} for name in found})
    assert inner[kinds.ROOT] == {"cpu": 21}
    runtime = runtimes(found, inner, {"cpu": 5})
    assert {name: runtime[name]["cpu"] for name in found} == {kinds.DEFAULT: 7, kinds.SYSTEM: 7, "a": 5}


def test_without_a_weight_for_a_resource_a_quota_has_its_min_alone() -> None:
    light = replace(elastic("light", 2, 10), weights={"memory": 1})
    found = {"light": light, "a": elastic("a", 0, 3)}
    runtime = runtimes(found, child_requests(found, {name: {"cpu": 9} for name in found}), {"cpu": 10})
    assert (runtime["light"], runtime["a"]) == ({"cpu": 2}, {"cpu": 3})
