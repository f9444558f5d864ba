"""`clusters/workers/worker.py`: which clusters get jobs, and what is shown of them."""

from __future__ import annotations

from typing import Any

import pytest

from phalanx.clusters.workers import worker as worker_
from phalanx.clusters.workers.mirror import mirrored
from phalanx.clusters.workers.source import SourceError, source_of
from phalanx.errors import PhalanxError
from phalanx.kube.gang.spec.elsewhere import cluster_of
from tests.clusters.test_fleet import cluster
from tests.kube.double import node

Object = dict[str, Any]


def test_a_cluster_profile_is_refused() -> None:
    spec = {"clusterSource": {"clusterProfileRef": {"name": "x"}}}
    assert isinstance(source_of({"metadata": {"name": "w"}, "spec": spec}), SourceError)
    assert source_of({"spec": {"kubeConfig": {"location": "a"}}}) == source_of(cluster("w", "a"))


@pytest.mark.parametrize(("version", "fits"), [("v1.28.4", False), ("v1.29.0+k3s1", True), ("v2.0", True), ("", True)])
def test_an_old_worker_is_refused_with_its_version(version: str, fits: bool) -> None:
    if fits:
        worker_._require_version(version)
        return
    with pytest.raises(PhalanxError, match=r"runs Kubernetes v1\.28\.4"):
        worker_._require_version(version)


def test_queues_of_an_unknown_version_are_refused() -> None:
    def groups(*versions: str) -> list[Object]:
        return [{"name": "kueue.x-k8s.io", "versions": [{"version": one} for one in versions]}]

    assert worker_._schedulers(groups("v1beta1", "v1beta2")) == "Kueue"
    with pytest.raises(PhalanxError, match="serves only Kueue v1alpha1"):
        worker_._schedulers(groups("v1alpha1"))


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
