"""Deployments, stateful sets, daemon sets and pod templates: defaults, and what is refused of them."""

from __future__ import annotations

from typing import Any

import pytest

from tests.embedded.apiserver.registry.kinds.writes import (
    Object,
    create,
    named,
    refusal,
    resource,
    stored,
    update_refusal,
)


def test_what_a_stateful_set_may_not_change() -> None:
    selected = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    old = stored("statefulsets", named(spec={"selector": {"matchLabels": {"a": "b"}}, "template": selected}))
    assert update_refusal("statefulsets", old, {"spec": {"replicas": 2, "minReadySeconds": 1}}) == []
    frozen = [
        "spec: Forbidden: updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', "
        "'updateStrategy', 'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are "
        "forbidden"
    ]
    assert update_refusal("statefulsets", old, {"spec": {"serviceName": "s"}}) == frozen
    assert update_refusal("statefulsets", old, {"spec": {"podManagementPolicy": "Parallel"}}) == frozen


TEMPLATE = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}


def test_a_pod_template_is_defaulted_like_a_pod() -> None:
    obj = create("podtemplates", named(template=TEMPLATE))
    assert obj["template"]["spec"]["dnsPolicy"] == "ClusterFirst"
    assert obj["metadata"]["generation"] == 1


def test_who_writes_what_nobody_acts_on_is_warned() -> None:
    spec = {"selector": {"matchLabels": {"a": "b"}}, "template": TEMPLATE}
    obj = create("deployments", named(spec=dict(spec)))
    assert (obj["spec"]["replicas"], obj["spec"]["strategy"]["type"]) == (1, "RollingUpdate")
    assert resource("deployments").strategy.warnings(obj, None) == []
    (warning,) = resource("daemonsets").strategy.warnings(create("daemonsets", named(spec=dict(spec))), None)
    assert warning.startswith("no controller of this cluster acts on a daemonset")


UNMATCHED = 'spec.template.metadata.labels: Invalid value: {"a":"b"}: `selector` does not match template `labels`'


@pytest.mark.parametrize(
    ("spec", "lines"),
    [
        ({"template": TEMPLATE}, ["spec.selector: Required value", UNMATCHED]),
        ({"template": TEMPLATE, "selector": {"matchLabels": {"a": "x"}}}, [UNMATCHED]),
    ],
)
def test_a_workload_selects_its_own_pods(spec: Object, lines: list[str]) -> None:
    assert refusal("deployments", named(spec=spec)) == lines


def workload(**spec: Any) -> Object:
    labels = {"matchLabels": {"a": "b"}}
    template = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    return {"metadata": {"name": "w"}, "spec": {"selector": labels, "template": template, **spec}}


PERCENT = (
    "a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or '93%', regex used for "
    "validation is '[0-9]+%')"
)


@pytest.mark.parametrize(
    ("plural", "spec", "lines"),
    [
        ("deployments", {}, []),
        ("deployments", {"strategy": {"type": "Recreate"}}, []),
        ("deployments", {"strategy": {"type": "X"}}, [
            'spec.strategy: Unsupported value: {"Type":"X","RollingUpdate":null}: supported values: "Recreate", '
            '"RollingUpdate"']),
        ("deployments", {"strategy": {"type": "Recreate", "rollingUpdate": {}}}, [
            "spec.strategy.rollingUpdate: Forbidden: may not be specified when strategy `type` is 'Recreate'"]),
        ("deployments", {"strategy": {"rollingUpdate": {"maxSurge": 0, "maxUnavailable": "0%"}}}, [
            'spec.strategy.rollingUpdate.maxUnavailable: Invalid value: "0%": may not be 0 when `maxSurge` is 0']),
        ("deployments", {"strategy": {"rollingUpdate": {"maxSurge": "x", "maxUnavailable": "200%"}}}, [
            f'spec.strategy.rollingUpdate.maxSurge: Invalid value: "x": {PERCENT}',
            'spec.strategy.rollingUpdate.maxUnavailable: Invalid value: "200%": must not be greater than 100%']),
        ("deployments", {"progressDeadlineSeconds": 5, "minReadySeconds": 5}, [
            "spec.progressDeadlineSeconds: Invalid value: 5: must be greater than minReadySeconds"]),
        ("statefulsets", {}, []),
        ("statefulsets", {"updateStrategy": {"type": "OnDelete"}}, []),
        ("statefulsets", {"podManagementPolicy": "X"}, [
            "spec.podManagementPolicy: Invalid value: \"X\": must be 'OrderedReady' or 'Parallel'"]),
        ("statefulsets", {"updateStrategy": {"type": "X"}}, [
            'spec.updateStrategy: Invalid value: {"Type":"X","RollingUpdate":null}: '
            "must be 'RollingUpdate' or 'OnDelete'"]),
        ("statefulsets", {"updateStrategy": {"rollingUpdate": {"partition": -1}}, "ordinals": {"start": -1}}, [
            "spec.updateStrategy.rollingUpdate.partition: Invalid value: -1: must be greater than or equal to 0",
            "spec.ordinals.start: Invalid value: -1: must be greater than or equal to 0"]),
        ("statefulsets", {"persistentVolumeClaimRetentionPolicy": {"whenDeleted": "X"}}, [
            'spec.persistentVolumeClaimRetentionPolicy.whenDeleted: Unsupported value: "X": supported values: '
            '"Retain", "Delete"']),
        ("daemonsets", {}, []),
        ("daemonsets", {"updateStrategy": {"rollingUpdate": {"maxUnavailable": 0}}}, [
            "spec.updateStrategy.rollingUpdate.maxUnavailable: Required value: cannot be 0 when maxSurge is 0"]),
        ("daemonsets", {"updateStrategy": {"rollingUpdate": {"maxUnavailable": 1, "maxSurge": 1}}}, [
            "spec.updateStrategy.rollingUpdate.maxSurge: Invalid value: 1: may not be set when maxUnavailable is "
            "non-zero"]),
    ],
)  # fmt: skip
def test_how_pods_of_a_workload_are_replaced(plural: str, spec: Object, lines: list[str]) -> None:
    assert refusal(plural, workload(**spec)) == lines
