"""`kube/read/template/pod_shape.py`: from a pod's spec to its `Shape`."""

from __future__ import annotations

from phalanx.kube.read.template.pod_shape import ShapeCache, covers
from phalanx.model.pod import Shape
from phalanx.model.reason import ReasonCode
from tests.kube.test_pod_shape_requests import container


def test_template_and_pod_share_a_shape() -> None:
    """Admission gives every pod two tolerations that no template has."""
    shapes, spec = ShapeCache(), {"containers": [container(cpu="1")]}
    added = {
        "key": "node.kubernetes.io/not-ready",
        "operator": "Exists",
        "effect": "NoExecute",
        "tolerationSeconds": 300,
    }
    assert shapes.of_pod(spec) == shapes.of_pod({**spec, "tolerations": [added]})


def test_smaller_is_covered_and_larger_is_not() -> None:
    small, large = Shape((("cpu", 1000), ("pods", 1))), Shape((("cpu", 2000), ("pods", 1)))
    assert covers(large, small)
    assert not covers(small, large)
    assert not covers(large, Shape(small.requests, selector=(("zone", "a"),)))


def test_a_quantity_that_is_none_is_told() -> None:
    ask = ShapeCache().of_pod({"containers": [container(cpu="lots")]})
    assert ask.obstacle is not None
    assert ask.obstacle.code is ReasonCode.INVALID
    assert "'lots' is not a quantity" in ask.obstacle.text
