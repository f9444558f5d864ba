"""The PodGroup of pods that name none: of one pod, of all pods of an owner, as the owner's annotations say."""

from __future__ import annotations

from typing import Any

from phalanx.client.connection import Object
from phalanx.embedded.controllers.operators.volcano.pod_groups import make_group, never_complete


def pod(**annotations: str) -> Object:
    resources = {"requests": {"cpu": "500m", "memory": "1Gi"}}
    spec: Object = {"priorityClassName": "high", "containers": [{"name": "c", "resources": resources}]}
    return {"metadata": {"name": "p", "namespace": "n", "uid": "u", "annotations": annotations}, "spec": spec}


def owner(**annotations: str) -> Object:
    said = {f"scheduling.volcano.sh/{key.replace('_', '-')}": text for key, text in annotations.items()}
    return {"kind": "StatefulSet", "metadata": {"name": "s", "uid": "us", "annotations": said}}


def stateful_set(minimum: int, **spec: Any) -> str:
    return never_complete({**owner(), "spec": {"replicas": 3, **spec}}, minimum)


def test_gang_that_never_exists_together_is_reported() -> None:
    assert stateful_set(1) == ""
    assert stateful_set(3, podManagementPolicy="Parallel") == ""
    assert "podManagementPolicy: Parallel" in stateful_set(2)
    assert "set at least 4 replicas" in stateful_set(4, podManagementPolicy="Parallel")
    deployment = {"kind": "ReplicaSet", "spec": {"replicas": 3}}
    assert (never_complete(deployment, 3), never_complete({"kind": "DaemonSet"}, 9)) == ("", "")
    assert "there are 3 replicas" in never_complete(deployment, 4)


def spec_of(found: Object) -> Any:
    return found["spec"]


def test_a_pod_by_itself() -> None:
    found = make_group("podgroup-u", pod(), None)
    assert spec_of(found) == {
        "minMember": 1,
        "queue": "default",
        "minResources": {"cpu": "500m", "memory": "1073741824"},
        "priorityClassName": "high",
    }
    (whose,) = found["metadata"]["ownerReferences"]
    assert (whose["kind"], whose["name"], whose["uid"]) == ("Pod", "p", "u")


def test_the_pods_of_an_owner_start_as_it_says() -> None:
    notes = {"scheduling.volcano.sh/queue-name": "lab", "volcano.sh/network-topology-highest-tier": "2"}
    found = make_group("podgroup-us", pod(**notes), owner(group_min_member="3"))
    assert (spec_of(found)["minMember"], spec_of(found)["queue"]) == (3, "lab")
    assert spec_of(found)["minResources"] == {"cpu": "1500m", "memory": "3221225472"}
    assert spec_of(found)["networkTopology"] == {"mode": "hard", "highestTierAllowed": 2}
    assert found["metadata"]["annotations"] == {"volcano.sh/network-topology-highest-tier": "2"}
    (whose,) = found["metadata"]["ownerReferences"]
    assert (whose["kind"], whose["uid"]) == ("StatefulSet", "us")


def test_a_minimum_that_is_no_number_counts_as_one() -> None:
    assert spec_of(make_group("podgroup-us", pod(), owner(group_min_member="all")))["minMember"] == 1
