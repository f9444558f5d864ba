"""`dialects/kueue/policies/definition_rules.py`: ClusterQueues, Cohorts and ResourceFlavors that Kueue's webhooks
refuse."""

from __future__ import annotations

from typing import Any

import pytest

from phalanx.client.kind import Kind
from phalanx.dialects.kueue import kinds
from phalanx.dialects.kueue.policies import definition_rules, framework_rules, job_rules
from phalanx.dialects.kueue.policies.definition_rules import DEFINITION_POLICIES, POLICIES
from tests.dialects.admitted import refused, written
from tests.dialects.kueue.written import group

QUEUES, COHORTS, FLAVORS = kinds.CLUSTER_QUEUES, kinds.COHORTS, kinds.RESOURCE_FLAVORS


def said(kind: Kind, spec: Any, **how: Any) -> str:
    return refused(DEFINITION_POLICIES, kind, written(kind, spec), **how)


def quotas(**quota: Any) -> dict[str, Any]:
    return {"resourceGroups": [group(f={"cpu": {"nominalQuota": "4", **quota}})]}


def swapped() -> dict[str, Any]:
    """A flavor that lists its resources in another order than its group."""
    made = group(f={"cpu": 1, "memory": 1})
    made["flavors"][0]["resources"].reverse()
    return made


def selector(operator: str, *values: str) -> dict[str, Any]:
    expression = {"key": "k", "operator": operator, **({"values": list(values)} if values else {})}
    return {"namespaceSelector": {"matchExpressions": [expression]}}


ALLOWED: list[tuple[Kind, Any]] = [
    (QUEUES, {}),
    (QUEUES, {"namespaceSelector": {}}),
    (QUEUES, selector("In", "a")),
    (QUEUES, selector("NotIn", "a", "b")),
    (QUEUES, selector("Exists")),
    (QUEUES, selector("DoesNotExist")),
    (QUEUES, {"resourceGroups": []}),
    (QUEUES, {"resourceGroups": [group(f={"cpu": 0, "memory": "1Gi"}), group(g={"nvidia.com/gpu": 8})]}),
    (QUEUES, {"fairSharing": {"weight": 0}}),
    (QUEUES, {"fairSharing": {"weight": "500m"}}),
    (QUEUES, {"fairSharing": {"weight": "2n"}}),
    (QUEUES, {"fairSharing": {}}),
    (QUEUES, {"cohortName": "c", **quotas(lendingLimit="4", borrowingLimit="0")}),
    (QUEUES, {"cohort": "c", **quotas(lendingLimit=0)}),
    (QUEUES, quotas(borrowingLimit="2")),
    (COHORTS, {"parentName": "p", **quotas(borrowingLimit=1, lendingLimit=1)}),
    (COHORTS, quotas()),
    (FLAVORS, {}),
    (FLAVORS, {"nodeTaints": [{"key": "a", "effect": "NoSchedule"}, {"key": "a", "effect": "NoExecute"}]}),
]


@pytest.mark.parametrize(("kind", "spec"), ALLOWED)
def test_valid_definitions(kind: Kind, spec: Any) -> None:
    assert said(kind, spec) == ""


OPERATOR = "namespaceSelector: an operator must be In or NotIn"
REFUSED: list[tuple[Kind, Any, str]] = [
    (QUEUES, selector("Near", "a"), OPERATOR),
    (QUEUES, selector("In"), OPERATOR),
    (QUEUES, selector("Exists", "a"), OPERATOR),
    (QUEUES, {"fairSharing": {"weight": "-1"}}, "fairSharing.weight must be 0 or above 1e-9"),
    (COHORTS, {"fairSharing": {"weight": -1}}, "fairSharing.weight must be 0 or above 1e-9"),
    (QUEUES, {"fairSharing": {"weight": "1n"}}, "fairSharing.weight must be 0 or above 1e-9"),
    (QUEUES, {"resourceGroups": [group(f={"cpu": 1}), group(g={"cpu": 1})]}, "a resource must be in only one"),
    (QUEUES, {"resourceGroups": [group(f={"cpu": 1}), group(f={"memory": 1})]}, "a flavor must be in only one"),
    (QUEUES, {"resourceGroups": [group(f={"cpu": 1}) | {"flavors": group(f={"cpu": 1})["flavors"] * 2}]},
     "a flavor must be in only one resource group, and only once"),
    (QUEUES, {"resourceGroups": [swapped()]}, "a flavor must list the covered resources in their order"),
    (QUEUES, quotas(nominalQuota="-1"), "a quota must not be below 0"),
    (QUEUES, quotas(borrowingLimit=-1), "a quota must not be below 0"),
    (QUEUES, {"cohortName": "c", **quotas(lendingLimit="-1m")}, "a quota must not be below 0"),
    (QUEUES, quotas(lendingLimit=1), "lendingLimit requires a cohort"),
    (QUEUES, {"cohortName": "", **quotas(lendingLimit=1)}, "lendingLimit requires a cohort"),
    (QUEUES, {"cohortName": "c", **quotas(lendingLimit="4001m")}, "lendingLimit must not exceed nominalQuota"),
    (COHORTS, quotas(borrowingLimit=1), "borrowingLimit requires a parent"),
    (COHORTS, {"parentName": "", **quotas(lendingLimit=1)}, "lendingLimit requires a parent"),
    (FLAVORS, {"nodeTaints": [{"key": "a", "value": value, "effect": "NoSchedule"} for value in "xy"]},
     "a taint must be listed only once"),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "spec", "words"), REFUSED)
def test_definitions_that_kueue_refuses(kind: Kind, spec: Any, words: str) -> None:
    for old in (None, written(kind, {})):  # at a creation and at a change
        answer = said(kind, spec, old=old)
        assert answer.startswith("403 ")
        assert words in answer


def test_both_versions_are_checked() -> None:
    for version in ("v1beta1", "v1beta2"):
        kind = Kind(group=kinds.GROUP, version=version, plural="clusterqueues", name="ClusterQueue", namespaced=False)
        assert "requires a cohort" in said(kind, quotas(lendingLimit=1))


def test_an_object_that_is_being_deleted_can_lose_its_finalizers() -> None:
    invalid = written(QUEUES, quotas(lendingLimit=1))
    invalid["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    assert refused(DEFINITION_POLICIES, QUEUES, invalid, old=invalid) == ""


def test_an_object_without_a_spec_is_left_to_the_schema() -> None:
    for kind in (QUEUES, COHORTS, FLAVORS):
        assert refused(DEFINITION_POLICIES, kind, written(kind)) == ""


def test_all_policies_of_the_dialect_are_listed_once() -> None:
    names = [(kind.plural, body["metadata"]["name"]) for kind, body in POLICIES]
    assert len(names) == len(set(names))
    parts = (job_rules.JOB_POLICIES, job_rules.SIGNATURE_POLICIES, framework_rules.FRAMEWORK_POLICIES)
    for part in (*parts, framework_rules.SENDING_POLICIES, definition_rules.DEFINITION_POLICIES):
        assert all(each in POLICIES for each in part)
