"""Limit ranges fill in the resources of containers, and refuse what is out of range."""

from __future__ import annotations

from typing import Any

import pytest

from phalanx.embedded.apimachinery.meta.status import StatusError
from tests.embedded.apiserver.registry.kinds.writes import CONTAINER, Cluster, Object, create, pod

RANGES = ("", "limitranges")


def refused(body: Object, cluster: Cluster, plural: str = "pods") -> str:
    with pytest.raises(StatusError) as caught:
        create(plural, body, cluster=cluster)
    assert caught.value.code in (403, 404)
    return caught.value.message


def limited(**item: Any) -> Cluster:
    found = {"metadata": {"name": "l"}, "spec": {"limits": [{"type": "Container", **item}]}}
    return Cluster(objects={RANGES: [found]})


def test_a_limit_range_fills_in_and_says_so() -> None:
    cluster = limited(default={"cpu": "500m"}, defaultRequest={"cpu": "100m"})
    obj = create("pods", pod(), cluster=cluster)
    assert obj["spec"]["containers"][0]["resources"] == {"limits": {"cpu": "500m"}, "requests": {"cpu": "100m"}}
    assert obj["metadata"]["annotations"] == {
        "kubernetes.io/limit-ranger": "LimitRanger plugin set: cpu request for container c; cpu limit for container c"
    }
    assert obj["status"]["qosClass"] == "Burstable"


@pytest.mark.parametrize(
    ("item", "resources", "why"),
    [
        (
            {"max": {"cpu": "1"}},
            {"limits": {"cpu": "3"}},
            "maximum cpu usage per Container is 1, but limit is 3",
        ),
        (
            {"min": {"cpu": "1"}},
            {"requests": {"cpu": "100m"}},
            "minimum cpu usage per Container is 1, but request is 100m",
        ),
        ({"min": {"cpu": "1"}}, {}, "minimum cpu usage per Container is 1.  No request is specified"),
        (
            {"maxLimitRequestRatio": {"cpu": "2"}},
            {"limits": {"cpu": "3"}, "requests": {"cpu": "1"}},
            "cpu max limit to request ratio per Container is 2, but provided ratio is 3.000000",
        ),
    ],
)
def test_what_is_out_of_range_is_refused(item: Object, resources: Object, why: str) -> None:
    body = pod(containers=[{**CONTAINER, "resources": resources}])
    assert refused(body, limited(**item)) == f'pods "p" is forbidden: {why}'
