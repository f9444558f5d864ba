"""Clients of other schedulers' Kubernetes APIs run unchanged, each by its example.

They need a hundred megabytes of packages and more: `make examples` runs them, as does
PHALANX_EXAMPLES=kubernetes/torchx and so on.
"""

from __future__ import annotations

import pytest

from tests.examples.running import ASKED, folders_of, installing, pins, run, without_a_row

# name -> what it says in the end
HEAVY = {
    "kubernetes/torchx": "two replicas of a Volcano Job ended well and told so, on 2 hosts; another was cancelled",
    "kubernetes/kubeflow": "a function was trained on 2 nodes of a TrainJob; one failed; a running one was deleted",
    "kubernetes/airflow": "a DAG ended well: a Job of two pods and a pod, both admitted by a LocalQueue",
    "kubernetes/dask": "a KubeCluster of two workers computed squares, and grew to 3; Dask's operator made its pods",
    "kubernetes/prefect": "a flow ran as a Job in a queue and ended well; another failed, and Prefect says so",
    "kubernetes/codeflare-sdk": "two RayClusters of a LocalQueue were admitted, the second when the first was deleted",
    "kubernetes/metaflow": "a flow ended well: two Jobs and a JobSet of 2 nodes were admitted by a LocalQueue",
    "kubernetes/kubeflow-training": "a PyTorchJob ended well on 3 hosts; one failed; a running one was deleted",
}


@pytest.mark.timeout(900)
@pytest.mark.parametrize("name", installing(name for name in HEAVY if name in ASKED))
def test_a_client_of_many_packages_runs_unchanged(name: str, installed: None) -> None:
    assert HEAVY[name] in run(name, "--timeout", "700", timeout_s=800)


def test_every_client_has_its_row_and_its_versions() -> None:
    folders = folders_of("kubernetes")
    assert folders == set(HEAVY)
    assert not without_a_row(folders)
    assert not [pin for folder in folders for pin in pins(folder) if "==" not in pin]
