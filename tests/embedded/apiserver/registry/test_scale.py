"""`embedded/apiserver/endpoints/subresources/scale.py`: `/scale` of a custom resource."""

from __future__ import annotations

import pytest

from phalanx.embedded.apiserver.apimachinery.meta.status import ApiError
from phalanx.embedded.apiserver.endpoints.subresources.scale import scale_of, scaled
from tests.embedded.apiserver.registry.test_crd import WIDGETS, widget


def test_the_scale_is_a_view_of_the_replicas() -> None:
    obj = widget("{image: abc, replicas: 2}", status={"replicas": 1})
    scale = scale_of(WIDGETS, obj)
    assert (scale["kind"], scale["spec"], scale["status"]) == ("Scale", {"replicas": 2}, {"replicas": 1})
    assert scaled(WIDGETS, obj, {"spec": {"replicas": 5}})["spec"] == {"image": "abc", "replicas": 5}
    with pytest.raises(ApiError, match=r"\.spec\.replicas: Invalid value: -1: should be a non-negative integer"):
        scaled(WIDGETS, obj, {"spec": {"replicas": -1}})
