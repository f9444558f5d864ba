"""How a cluster is reached: the kinds of sources that are refused."""

from __future__ import annotations

from phalanx.clusters.workers.source import SourceError, source_of
from tests.clusters.test_fleet import cluster


def test_a_cluster_profile_is_refused() -> None:
    spec = {"clusterSource": {"clusterProfileRef": {"name": "x"}}}
    assert isinstance(source_of({"metadata": {"name": "w"}, "spec": spec}), SourceError)
    assert source_of({"spec": {"kubeConfig": {"location": "a"}}}) == source_of(cluster("w", "a"))
