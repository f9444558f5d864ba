"""Workloads and PodGroups of scheduling.k8s.io/v1alpha2."""

from __future__ import annotations

from typing import Any

import pytest

from phalanx.embedded.apimachinery.meta.status import StatusError
from tests.embedded.apiserver.registry.kinds.writes import Cluster, Object, create, refusal, update_refusal

GANG = {"gang": {"minCount": 2}}
GROUP = "scheduling.k8s.io"
WORKLOAD = {"metadata": {"name": "w"}, "spec": {"podGroupTemplates": [{"name": "workers", "schedulingPolicy": GANG}]}}


def group(**spec: Any) -> Object:
    return {"metadata": {"name": "g"}, "spec": {"schedulingPolicy": GANG, **spec}}


def test_a_group_gets_its_mode_its_priority_and_its_finalizer() -> None:
    made = create("podgroups", group())
    assert (made["spec"]["disruptionMode"], made["spec"]["priority"]) == ("Pod", 0)
    assert made["spec"]["podGroupTemplateRef"] is None
    assert made["metadata"]["finalizers"] == ["scheduling.k8s.io/podgroup-protection"]


@pytest.mark.parametrize(
    ("spec", "line"),
    [
        (
            {"schedulingPolicy": {"basic": {}, **GANG}},
            'spec.schedulingPolicy: Invalid value: "{basic, gang}": must specify exactly one of: `basic`, `gang`',
        ),
        ({"schedulingPolicy": {"gang": {}}}, "spec.schedulingPolicy.gang.minCount: Required value"),
        (
            {"schedulingConstraints": {"topology": [{"key": ""}]}},
            "spec.schedulingConstraints.topology[0].key: Required value",
        ),
    ],
)
def test_wrong_groups_are_refused(spec: Object, line: str) -> None:
    assert refusal("podgroups", group(**spec)) == [line]


def test_the_template_that_a_group_names_exists() -> None:
    stored = Cluster({(GROUP, "workloads"): [WORKLOAD]})
    reference = {"workload": {"workloadName": "w", "podGroupTemplateName": "workers"}}
    assert create("podgroups", group(podGroupTemplateRef=reference), stored)
    reference["workload"]["podGroupTemplateName"] = "others"
    with pytest.raises(StatusError, match='PodGroup rejected: PodGroupTemplate "others" not found in Workload "w"'):
        create("podgroups", group(podGroupTemplateRef=reference), stored)


def test_a_specification_is_fixed() -> None:
    old = create("podgroups", group())
    old["metadata"]["resourceVersion"] = "1"
    lines = update_refusal("podgroups", old, group(schedulingPolicy={"gang": {"minCount": 3}}, disruptionMode="Pod"))
    assert "spec.schedulingPolicy: Invalid value: null: field is immutable" in lines


@pytest.mark.parametrize(
    ("spec", "line"),
    [
        ({}, "spec.podGroupTemplates: Required value: must have at least one item"),
        (
            {"podGroupTemplates": [{"name": f"t{n}", "schedulingPolicy": GANG} for n in range(9)]},
            "spec.podGroupTemplates: Too many: 9: must have at most 8 items",
        ),
        (
            {"podGroupTemplates": [{"name": "t", "schedulingPolicy": GANG}] * 2},
            'spec.podGroupTemplates[1]: Duplicate value: {"name":"t"}',
        ),
        (
            {**WORKLOAD["spec"], "controllerRef": {"kind": "", "name": "j"}},
            "spec.controllerRef.kind: Required value",
        ),
    ],
)
def test_wrong_workloads_are_refused(spec: Object, line: str) -> None:
    assert refusal("workloads", {"metadata": {"name": "w"}, "spec": spec}) == [line]
