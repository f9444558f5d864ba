"""Kueue's queues in Phalanx's queue tree, and their claims on a gang."""

from __future__ import annotations

from typing import Any

import pytest

from phalanx.dialects.frame.selectors import selects
from phalanx.dialects.kueue.tree.configuration import START_TIMEOUT_S
from phalanx.dialects.kueue.tree.definitions import KueueDefinitions, weight_of
from phalanx.model.node import Flavor, Taint
from phalanx.model.pod import Toleration
from phalanx.model.queue import (
    FlavorFungibility,
    Queue,
    QueuePreemption,
    QueueState,
    Quota,
    ReclaimWithinCohort,
    Strategy,
    VictimOrder,
    WithinQueue,
)
from tests.dialects.kueue.written import cluster_queue, defined, group, named


def queue(found: KueueDefinitions, name: str) -> Queue:
    return next(each for each in found.queues if each.name == name)


def test_without_a_cohort_the_nominal_quota_is_the_limit() -> None:
    found = defined(cluster_queues=[cluster_queue("a", group(f={"cpu": 4, "memory": "1Gi"}))])
    own = (("cpu", 4000), ("memory", 2**30))
    assert queue(found, "clusterqueue/a") == Queue(
        name="clusterqueue/a",
        quotas=(Quota(flavor="resourceflavor/f", group="0", guaranteed=own, limit=own),),
        preemption=QueuePreemption(victims=VictimOrder.CHEAPEST, strategy=Strategy.FINAL_THEN_INITIAL),
        start_timeout_s=START_TIMEOUT_S,
    )


def test_a_cohort_has_what_is_below_it_and_its_own() -> None:
    lender = cluster_queue("a", group(f={"cpu": {"nominalQuota": 4, "lendingLimit": 1}}), cohortName="all")
    borrower = cluster_queue("b", group(f={"cpu": {"nominalQuota": 2, "borrowingLimit": 1}}), cohort="all")
    cohort = named("all", spec={"resourceGroups": [group(f={"cpu": 3})]})
    found = defined(cluster_queues=[lender, borrower], cohorts=[cohort])
    assert queue(found, "cohort/all").quotas == (
        Quota(flavor="resourceflavor/f", guaranteed=(("cpu", 9000),), limit=(("cpu", 9000),)),
    )
    assert queue(found, "clusterqueue/a").quotas == (
        Quota(flavor="resourceflavor/f", group="0", guaranteed=(("cpu", 4000),), lend=(("cpu", 1000),)),
    )
    assert queue(found, "clusterqueue/b").quotas == (
        Quota(flavor="resourceflavor/f", group="0", guaranteed=(("cpu", 2000),), limit=(("cpu", 3000),)),
    )
    assert {queue(found, f"clusterqueue/{name}").parent for name in "ab"} == {"cohort/all"}


def test_a_cohort_below_another_is_bounded_by_its_borrowing_limit_alone() -> None:
    inner = named("inner", spec={"parentName": "outer", "resourceGroups": [group(f={"cpu": 1})]})
    inner["spec"]["resourceGroups"][0]["flavors"][0]["resources"][0]["borrowingLimit"] = 2
    other = named("other", spec={"parentName": "outer", "resourceGroups": [group(f={"cpu": 5})]})
    found = defined(cohorts=[inner, other])
    limits = {each.name: each.quotas[0].limit for each in found.queues}
    assert limits == {"cohort/inner": (("cpu", 3000),), "cohort/other": (), "cohort/outer": (("cpu", 6000),)}


def test_a_cycle_of_cohorts_is_told_as_it_is() -> None:
    found = defined(cohorts=[named("a", spec={"parentName": "b"}), named("b", spec={"parentName": "a"})])
    assert {each.name: each.parent for each in found.queues} == {"cohort/a": "cohort/b", "cohort/b": "cohort/a"}


POLICIES: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({"queueingStrategy": "StrictFIFO"}, {"strict": True}),
    ({"stopPolicy": "Hold"}, {"state": QueueState.HELD}),
    ({"fairSharing": {"weight": "500m"}}, {"weight": 0.5}),
    (
        {"flavorFungibility": {"whenCanBorrow": "TryNextFlavor", "whenCanPreempt": "Preempt"}},
        {"fungibility": FlavorFungibility(borrow_before_next=False, preempt_before_next=True)},
    ),
    (
        {
            "preemption": {
                "withinClusterQueue": "LowerOrNewerEqualPriority",
                "reclaimWithinCohort": "Any",
                "borrowWithinCohort": {"policy": "LowerPriority", "maxPriorityThreshold": 7},
            }
        },
        {
            "preemption": QueuePreemption(
                within=WithinQueue.LOWER_OR_NEWER,
                reclaim=ReclaimWithinCohort.ANY,
                borrowing=True,
                borrowing_threshold=7,
                victims=VictimOrder.CHEAPEST,
                strategy=Strategy.FINAL_THEN_INITIAL,
            )
        },
    ),
]


@pytest.mark.parametrize(("spec", "becomes"), POLICIES)
def test_policies(spec: dict[str, Any], becomes: dict[str, Any]) -> None:
    found = queue(defined(cluster_queues=[cluster_queue("a", group(f={"cpu": 4}), **spec)]), "clusterqueue/a")
    assert {name: getattr(found, name) for name in becomes} == becomes


def test_a_weight_beyond_all_bounds_is_the_greatest() -> None:
    assert weight_of({"fairSharing": {"weight": "1e999"}}) == 2.0**53


def test_a_flavor() -> None:
    spec: dict[str, Any] = {"nodeLabels": {"pool": "spot"}, "tolerations": [{"key": "spot", "operator": "Exists"}]}
    spec["nodeTaints"] = [{"key": "dear", "value": "yes", "effect": "NoSchedule"}]
    found = defined(flavors=(), resource_flavors=[named("f", spec=spec)])
    toleration, taint = Toleration(key="spot", operator="Exists"), Taint("dear", "yes", "NoSchedule")
    assert found.flavors == (
        Flavor(name="resourceflavor/f", labels=(("pool", "spot"),), tolerations=(toleration,), taints=(taint,)),
    )


FAULTS: list[tuple[dict[str, Any], str, str]] = [
    ({"stopPolicy": "HoldAndDrain"}, "Stopped", "Can't admit new workloads: is stopped."),
    (
        {"admissionChecks": ["c"]},
        "AdmissionCheckNotFound",
        "Can't admit new workloads: references missing AdmissionCheck(s): c.",
    ),
    (
        {"resourceGroups": [group(g={"cpu": 1}, h={"cpu": 1})], "stopPolicy": "Hold"},
        "Stopped",
        "Can't admit new workloads: is stopped, references missing ResourceFlavor(s): g,h.",
    ),
]


@pytest.mark.parametrize(("spec", "reason", "message"), FAULTS)
def test_what_keeps_a_cluster_queue_from_admitting(spec: dict[str, Any], reason: str, message: str) -> None:
    found = defined(cluster_queues=[cluster_queue("a", **spec)])
    assert (found.cluster_queues["a"].reason, found.cluster_queues["a"].message) == (reason, message)
    assert queue(found, "clusterqueue/a").state is QueueState.HELD


def test_a_check_counts_when_its_controller_has_made_it_active() -> None:
    spec = {"admissionChecksStrategy": {"admissionChecks": [{"name": "c"}]}}
    check = named("c", spec={"controllerName": "example.com/c"})
    some = {"cluster_queues": [cluster_queue("a", **spec)], "admission_checks": [check]}
    assert defined(**some).cluster_queues["a"].reason == "AdmissionCheckInactive"
    check["status"] = {"conditions": [{"type": "Active", "status": "True"}]}
    assert defined(**some).cluster_queues["a"].active


SELECTORS: list[tuple[Any, bool]] = [
    (None, False),
    ({}, True),
    ({"matchLabels": {"team": "a"}}, True),
    ({"matchLabels": {"team": "b"}}, False),
    ({"matchExpressions": [{"key": "team", "operator": "In", "values": ["a", "b"]}]}, True),
    ({"matchExpressions": [{"key": "team", "operator": "NotIn", "values": ["a"]}]}, False),
    ({"matchExpressions": [{"key": "other", "operator": "NotIn", "values": ["a"]}]}, True),
    ({"matchExpressions": [{"key": "team", "operator": "Exists"}, {"key": "x", "operator": "DoesNotExist"}]}, True),
    ({"matchExpressions": [{"key": "team", "operator": "Near"}]}, False),
]


@pytest.mark.parametrize(("selector", "matches"), SELECTORS)
def test_selectors(selector: Any, matches: bool) -> None:
    assert selects(selector, {"team": "a"}) is matches
