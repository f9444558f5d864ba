"""`cli/commands/administer/cluster_findings.py`: other clusters that get no jobs, and unfinished moves."""

from __future__ import annotations

import json
from typing import Any

from phalanx.cli.commands.administer.cluster_findings import of_clusters, of_moves
from phalanx.cli.commands.administer.node_group_findings import PROBLEM, WARNING
from phalanx.client.kind import JOBS
from phalanx.clusters.workers.state import FIGURES
from phalanx.dialects.kueue.kinds import ADMISSION_CHECKS, MULTI_CLUSTERS
from phalanx.kube.read.labels import MOVING
from tests.cli.doctored import Cluster


async def test_a_cluster_that_gets_no_jobs_and_a_check_without_clusters_are_named() -> None:
    def active(truth: bool, message: str) -> dict[str, Any]:
        one = {"type": "Active", "status": str(truth), "message": message, "lastTransitionTime": "2026-01-01T00:00:00Z"}
        return {"conditions": [one]}

    assert await of_clusters(Cluster()) == []
    good = (MULTI_CLUSTERS, "w1", {"metadata": {"name": "w1"}, "status": active(True, "Connected")})
    figures = json.dumps({"note": "it does not define these kinds of jobs: RayJob", "lacks": ["RayJob"]})
    lacking = (MULTI_CLUSTERS, "w3", {**good[2], "metadata": {"name": "w3", "annotations": {FIGURES: figures}}})
    [lacks, _] = await of_clusters(Cluster(good, lacking))
    assert (lacks.about, lacks.state) == ("cluster w3", WARNING)
    assert lacks.text == "it does not define these kinds of jobs: RayJob"
    assert "install their definitions in it" in lacks.mend
    away = active(False, "it cannot be reached: no answer. Look whether it runs.")
    bad = (MULTI_CLUSTERS, "w2", {"metadata": {"name": "w2"}, "status": away})
    spec = {"controllerName": "kueue.x-k8s.io/multikueue"}
    check = {"metadata": {"name": "c"}, "spec": spec, "status": active(False, "there is no MultiKueueConfig")}
    [cluster, sends, whole] = await of_clusters(Cluster(good, bad, (ADMISSION_CHECKS, "c", check)))
    assert (cluster.about, cluster.state, cluster.mend) == ("cluster w2", WARNING, "Look whether it runs.")
    assert cluster.text == "gets no jobs: it cannot be reached: no answer"
    assert (sends.state, sends.text) == (PROBLEM, "sends jobs to no cluster: there is no MultiKueueConfig")
    assert whole.text == "1 of 2 get jobs"


async def test_unfinished_move_is_a_warning_with_the_number_of_its_objects() -> None:
    held = (JOBS, "held", {"metadata": {"name": "held", "annotations": {MOVING: "w"}}})
    free = (JOBS, "free", {"metadata": {"name": "free"}})
    assert await of_moves(Cluster(free)) == []
    [found] = await of_moves(Cluster(held, free))
    assert (found.about, found.state) == ("moves", WARNING)
    assert found.text.startswith("1 object of jobs held by a `phalanx move`")
