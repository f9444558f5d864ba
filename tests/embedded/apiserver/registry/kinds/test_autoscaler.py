"""HorizontalPodAutoscalers are stored as Kubernetes stores them."""

from __future__ import annotations

import pytest

from tests.embedded.apiserver.registry.kinds.writes import Object, refusal

PLURAL = "horizontalpodautoscalers"


@pytest.mark.parametrize("obj", [{}, {"spec": None}, {"spec": {}}], ids=["no spec", "null", "empty"])
def test_an_autoscaler_without_a_target_is_refused(obj: Object) -> None:
    found = refusal(PLURAL, {"metadata": {"name": "a"}} | obj)
    assert any("spec.scaleTargetRef.kind" in line for line in found), found
    assert any("spec.maxReplicas" in line for line in found), found
