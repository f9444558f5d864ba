"""`clusters/workers/worker.py`: a worker cluster with an old or unknown version is refused."""

from __future__ import annotations

import pytest

from phalanx.clusters.workers import worker as worker_
from phalanx.errors import PhalanxError
from tests.kube.double import Object


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
