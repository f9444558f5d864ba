"""`kube/read/workload/role_types.py`: values that the API server refuses in a Job, but perhaps not in a framework's
job."""

from __future__ import annotations

from typing import Any

import pytest

from phalanx.kube.read.workload.role_types import check_types


def pod(**fields: Any) -> dict[str, Any]:
    return {"template": {"spec": fields}}


@pytest.mark.parametrize(
    "spec",
    [
        {},
        {"parallelism": None, "completions": 0, "suspend": True, "template": {"metadata": None, "spec": {}}},
        pod(containers=[{"name": "c", "resources": {"requests": {"cpu": 1, "memory": "1Gi"}}, "image": "i"}]),
        pod(affinity=None, tolerations=[{"key": "k", "tolerationSeconds": 5}], volumes=[{"name": "v", "emptyDir": {}}]),
    ],
)
def test_what_a_job_may_have_is_accepted(spec: dict[str, Any]) -> None:
    check_types(spec)


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        ({"parallelism": 2**31}, "$.parallelism"),
        ({"parallelism": -1}, "$.parallelism"),
        ({"parallelism": "2"}, "$.parallelism"),
        ({"activeDeadlineSeconds": {}}, "$.activeDeadlineSeconds"),
        ({"template": {"metadata": {"labels": {"a": 1}}}}, "$.template.metadata.labels"),
        (pod(tolerations=[{"key": {"a": "b"}}]), "$.template.spec.tolerations[0].key"),
        (pod(nodeSelector={"a": ["b"]}), "$.template.spec.nodeSelector"),
    ],
)
def test_another_type_is_refused_with_its_field(spec: dict[str, Any], field: str) -> None:
    with pytest.raises(ValueError, match=field.replace("$", r"\$").replace("[", r"\[")):
        check_types(spec)


@pytest.mark.parametrize(
    ("status", "field"),
    [
        ("text", "Expected `object"),
        ({"conditions": {}}, "conditions"),
        ({"conditions": [{"lastTransitionTime": {}}]}, "lastTransition"),
        ({"conditions": [{"lastTransitionTime": "text"}]}, "isoformat"),
    ],
)
def test_conditions_of_other_types_are_refused(status: Any, field: str) -> None:
    check_types({}, {"conditions": [{"type": "Suspended", "status": "True", "more": 1}], "phase": 5})
    with pytest.raises(ValueError, match=field):
        check_types({}, status)
