"""`dialects/kube_scheduler/koordinator/dialect.py`: koordinator, as one dialect of the frame."""

from __future__ import annotations

import pytest

from phalanx.client.kind import NODES
from phalanx.dialects.kube_scheduler.koordinator import kinds
from phalanx.dialects.kube_scheduler.koordinator.dialect import KOORDINATOR
from tests.dialects.kube_scheduler.koordinator.test_quota_tree import Q, queue, quota


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
