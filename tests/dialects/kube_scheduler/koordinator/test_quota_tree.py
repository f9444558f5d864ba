"""ElasticQuotas as queues of our tree, whose pods are of which, and how much each may use by Koordinator's count."""

from __future__ import annotations

import json

from phalanx.dialects.frame.dialect import Object
from phalanx.dialects.kube_scheduler.koordinator import kinds
from phalanx.dialects.kube_scheduler.koordinator.dialect import KOORDINATOR
from phalanx.dialects.kube_scheduler.koordinator.quota_tree import ElasticQuotaDefinitions
from phalanx.model.queue import BorrowingPolicy, Queue, QueueOrder, Quota, WithinQueue

Q = "quota.scheduling.koordinator.sh"


def quota(spec: Object, labels: Object | None = None, **notes: object) -> Object:
    said = {f"{Q}/{key.replace('_', '-')}": json.dumps(value) for key, value in notes.items()}
    meta = {"labels": {f"{Q}/{key}": text for key, text in (labels or {}).items()}, "annotations": said}
    return {"metadata": meta, "spec": spec}


def defined(**quotas: Object) -> ElasticQuotaDefinitions:
    """`namespace__name=quota`."""
    found = {key.replace("__", "/"): obj for key, obj in quotas.items()}
    return KOORDINATOR.define({kinds.ELASTIC_QUOTAS: found})


def queue(found: ElasticQuotaDefinitions, name: str) -> Queue:
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
