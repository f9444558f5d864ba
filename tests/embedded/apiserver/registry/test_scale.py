"""`embedded/apiserver/endpoints/subresources/scale.py`: `/scale` of a custom resource."""

from __future__ import annotations

from phalanx.embedded.apiserver.endpoints.subresources.scale import scale_of, scaled
from tests.embedded.apiserver.registry.test_crd import WIDGETS, widget


def test_the_scale_is_a_view_of_the_replicas() -> None:
    obj = widget("{image: abc, replicas: 2}", status={"replicas": 1})
    scale = scale_of(WIDGETS, obj)
    assert (scale["kind"], scale["spec"], scale["status"]) == ("Scale", {"replicas": 2}, {"replicas": 1})
    assert scaled(WIDGETS, obj, {"spec": {"replicas": 5}})["spec"] == {"image": "abc", "replicas": 5}
    assert "spec" in scaled(WIDGETS, obj, {"spec": {"replicas": -1}}), "the schema of the resource refuses it"
