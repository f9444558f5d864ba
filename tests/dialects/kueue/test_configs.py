"""ProvisioningRequestConfigs, and the AdmissionChecks that name them."""

from __future__ import annotations

from typing import Any

import pytest

from phalanx.dialects.frame.dialect import PodSet
from phalanx.dialects.kueue.provisioning.configs import CONTROLLER, Config, config_of

NAMED = {"kind": "ProvisioningRequestConfig", "name": "c"}


def config(**spec: Any) -> Config:
    found = config_of({"spec": {"controllerName": CONTROLLER, "parameters": NAMED}}, {"c": {"spec": spec}})
    assert found is not None
    return found


@pytest.mark.parametrize(
    "spec",
    [
        {},
        {"controllerName": "other", "parameters": NAMED},
        {"controllerName": CONTROLLER, "parameters": {**NAMED, "kind": "Other"}},
        {"controllerName": CONTROLLER, "parameters": {**NAMED, "name": "missing"}},
        {"controllerName": CONTROLLER},
    ],
)
def test_checks_without_a_config(spec: dict[str, Any]) -> None:
    assert config_of({"spec": spec}, {"c": {"spec": {}}}) is None


def test_what_a_config_says() -> None:
    found = config(
        provisioningClassName="check",
        parameters={"a": 1},
        retryStrategy={"backoffLimitCount": 0, "backoffBaseSeconds": 5},
        podSetUpdates={"nodeSelector": [{"key": "k", "valueFromProvisioningClassDetail": "d"}]},
        podSetMergePolicy="IdenticalWorkloadSchedulingRequirements",
    )
    assert (found.class_name, found.parameters, found.selectors) == ("check", {"a": "1"}, {"k": "d"})
    assert (found.attempts, found.base_s, found.most_s) == (0, 5, 1800)
    assert (found.merges, found.by_needs) == (True, True)
    assert not config(podSetMergePolicy="IdenticalPodTemplates").by_needs
    assert not config().merges


def test_pauses_double_up_to_the_longest() -> None:
    assert [config().pause_s(attempt) for attempt in (1, 2, 3, 6, 1000)] == [60, 120, 240, 1800, 1800]


def test_nodes_are_asked_for_pod_sets_that_want_a_managed_resource() -> None:
    sets = tuple(
        PodSet(name=name, count=1, minimum=1, request=request, template={})
        for name, request in (("cpu", (("cpu", 1),)), ("gpu", (("cpu", 1), ("nvidia.com/gpu", 1))))
    )
    assert [one.name for one in config(managedResources=["nvidia.com/gpu"]).wanted(sets)] == ["gpu"]
    assert config().wanted(sets) == sets
