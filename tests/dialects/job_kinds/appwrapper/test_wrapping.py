"""What the controller of AppWrappers asks of their contents, also where these make no sense."""

from __future__ import annotations

from typing import Any

import pytest

from phalanx.dialects.job_kinds.appwrapper.pod_sets import WrapError
from phalanx.dialects.job_kinds.appwrapper.wrapping import WRAPPINGS
from tests.dialects.job_kinds.appwrapper.wrappers import job, wrapper

OURS, _ = WRAPPINGS


def wraps(*components: Any) -> dict[str, Any]:
    meta = {"name": "aw", "namespace": "space", "uid": "u"}
    return {"metadata": meta, "spec": {"components": [{"template": one} for one in components]}}


def test_each_generation_has_its_wrapping() -> None:
    assert len({one.kind for one in WRAPPINGS}) == len(WRAPPINGS) == 2


def test_pods_that_are_expected() -> None:
    two = job()
    two["spec"]["parallelism"] = two["spec"]["completions"] = 2
    assert OURS.expected(wraps(two, job("k"))) == 3
    assert OURS.pod_sets(0, {"template": two}) == [{"path": "template.spec.template", "replicas": 2}]


@pytest.mark.parametrize("component", [{"template": {}}, {"template": {"kind": "Job", "spec": []}}, {}])
def test_what_cannot_be_read_has_no_pod_sets(component: dict[str, Any]) -> None:
    assert OURS.pod_sets(0, component) == []


def test_what_cannot_be_read_is_told() -> None:
    with pytest.raises(WrapError, match=r"there is no pod template at template\.spec\.template"):
        OURS.expected({"metadata": {"name": "aw"}, "spec": {"components": [{"template": {"kind": "Job", "spec": []}}]}})


def test_a_quota_is_asked_by_the_first_generation_alone() -> None:
    assert OURS.demand(wraps(job())["spec"]) is None
    assert OURS.demand(wrapper({"generictemplate": job()})["spec"]) is not None
