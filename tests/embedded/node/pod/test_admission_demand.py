"""`embedded/node/pod/admission.py`: what a pod asks of its node, as the kubelet's admission counts it."""

from __future__ import annotations

import pytest

from phalanx.embedded.node.pod.admission import demand, oom_score
from tests.embedded.node.objects import asking, container, pod


def test_a_pod_asks_for_the_most_it_needs_at_a_time() -> None:
    """Init containers run alone but beside earlier sidecars; a limit without a request is one."""
    spec = pod(
        asking("a", cpu="1"),
        container("b", resources={"limits": {"cpu": "500m"}}),
        initContainers=[
            {**asking("car", cpu="200m"), "restartPolicy": "Always"},
            asking("big", cpu="3"),
        ],
        overhead={"cpu": "10m"},
    )["spec"]
    assert demand(spec) == {"cpu": 3210, "pods": 1}


@pytest.mark.parametrize(
    ("quality", "asked", "score"),
    [
        ("Guaranteed", "1Gi", -997),
        ("BestEffort", "0", 1000),
        ("Burstable", "0", 999),
        ("Burstable", "2Gi", 750),
        ("Burstable", "8Gi", 3),
    ],
)
def test_where_memory_is_short_who_asked_for_least_goes_first(quality: str, asked: str, score: int) -> None:
    main = asking(memory=asked)
    assert oom_score(pod(main) | {"status": {"qosClass": quality}}, main, 8 << 30) == score
