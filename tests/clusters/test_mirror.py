"""What a manager shows of the nodes of a worker."""

from __future__ import annotations

from phalanx.clusters.workers.mirror import mirrored
from phalanx.kube.gang.spec.elsewhere import cluster_of
from tests.kube.double import Object, node


def test_a_worker_shows_what_its_own_pods_leave_and_takes_only_jobs_that_may_be_sent() -> None:
    def pod(name: str, owner: str) -> Object:
        owners = [{"controller": True, "kind": "Job", "name": owner, "uid": owner}]
        container = {"name": "c", "resources": {"requests": {"cpu": "1"}}}
        spec = {"nodeName": "n1", "containers": [container]}
        return {"metadata": {"name": name, "ownerReferences": owners}, "spec": spec, "status": {"phase": "Running"}}

    pods = [pod("theirs", "x"), pod("ours", "y")]
    [(name, found)] = mirrored("w1", [node("n1", 4)], pods, frozenset({"y"}), reachable=True).items()
    assert (name, cluster_of(name), cluster_of("n1")) == ("w1:n1", "w1", "")
    assert dict(found.allocatable)["cpu"] == 3000
    assert found.ready
    assert ("phalanx.dev/cluster", "w1") in found.labels
    assert [taint.by_name for taint in found.taints] == [True]
    [away] = mirrored("w1", [node("n1", 4)], (), frozenset(), reachable=False).values()
    assert not away.ready
