"""KAI's queues as Phalanx queues, the grouping of pods, and the minimum of a gang."""

from __future__ import annotations

from typing import Any

from phalanx.client.kind import PRIORITY_CLASSES
from phalanx.dialects.frame.dialect import Object
from phalanx.dialects.kai import kinds
from phalanx.dialects.kai.queues import GPU, ROOT, KaiDefinitions, define
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


def test_a_queue_above_itself_has_no_child() -> None:
    found = defined(("self", {"parentQueue": "self"}), ("a", {"parentQueue": "b"}), ("b", {"parentQueue": "a"}))
    assert [found.known[name].children for name in ("self", "a", "b")] == [(), ("b",), ("a",)]
    assert found.known["self"].fault == "the queue self, above self, is its own ancestor"


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
    cpu = {each.name: dict(each.quotas[0].guaranteed).get("cpu") for each in found.queues if each.name != ROOT}
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


def test_what_hangs_below_a_missing_queue_or_below_itself_is_in_no_tree() -> None:
    found = defined(("a", {"parentQueue": "gone"}), ("b", {"parentQueue": "a"}), ("c", {"parentQueue": "c"}))
    assert found.queues == ()
    assert {name: each.fault for name, each in found.known.items()} == {
        "a": "the queue gone, above a, does not exist",
        "b": "the queue gone, above b, does not exist",
        "c": "the queue c, above c, is its own ancestor",
    }


def test_the_classes_of_the_chart_are_known_and_those_of_the_cluster_count_over_them() -> None:
    classes = {"train": {"value": 60}, "mine": {"value": 7, "globalDefault": True}}
    found = define({PRIORITY_CLASSES: {name: {"metadata": {}, **one} for name, one in classes.items()}})
    assert found.priorities == {"train": 60, "build-preemptible": 75, "build": 100, "inference": 125, "mine": 7}
    assert found.default_priority == 7


def owner(spec: Object, **notes: str) -> Object:
    return {"metadata": {"annotations": {f"kai.scheduler/{key.replace('_', '-')}": t for key, t in notes.items()}}} | {
        "spec": spec
    }
