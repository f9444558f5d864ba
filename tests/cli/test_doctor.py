"""`phalanx doctor`: what is wrong is said with how to mend it, and nothing else is called wrong."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from phalanx.cli.commands.administer.doctor import (
    _of_admission,
    _of_clusters,
    _of_queues,
    _of_rivals,
    _of_scheduler,
    node_findings,
)
from phalanx.cli.commands.administer.node_group_findings import PROBLEM, WARNING, Finding, of_node_groups
from phalanx.cli.local.node_groups.file import read_node_groups
from phalanx.client.connection import ApiRefusal, Connection
from phalanx.client.kind import DEPLOYMENTS, LEASES, NODES, Kind
from phalanx.clusters.workers.state import FIGURES
from phalanx.dialects.kueue.kinds import ADMISSION_CHECKS, MULTI_CLUSTERS, RESOURCE_FLAVORS
from phalanx.kube.install.admission_policy import INSTALLED
from phalanx.kube.install.definitions import FLAVORS, QUEUES

NOW_S = 1_767_225_600.0  # 2026-01-01T00:00:00Z


class Cluster(Connection):
    """A cluster of these objects, by kind and name."""

    def __init__(self, *objects: tuple[Kind, str, dict[str, Any]]) -> None:
        super().__init__("http://nowhere.invalid", headers={}, tls=None)
        self.objects = {(kind, name): obj for kind, name, obj in objects}

    async def get(self, kind: Kind, name: str, namespace: str = "") -> dict[str, Any]:
        if (kind, name) not in self.objects:
            raise ApiRefusal(404, "NotFound", f"{name} not found")
        return self.objects[kind, name]

    async def list(self, kind: Kind, namespace: str = "", **params: str) -> dict[str, Any]:
        return {"items": [obj for (one, _), obj in self.objects.items() if one is kind]}


def lease(renewed: str, policy: str = "") -> tuple[Kind, str, dict[str, Any]]:
    meta = {"name": "phalanx", "annotations": {"phalanx.dev/policy": policy} if policy else {}}
    return LEASES, "phalanx", {"metadata": meta, "spec": {"holderIdentity": "one", "renewTime": renewed}}


async def test_a_scheduler_that_does_not_renew_its_lease_is_a_problem() -> None:
    [fresh] = await _of_scheduler(Cluster(lease("2025-12-31T23:59:58Z")), NOW_S)
    [stale] = await _of_scheduler(Cluster(lease("2025-12-31T23:50:00Z")), NOW_S)
    [never] = await _of_scheduler(Cluster(), NOW_S)
    assert (fresh.state, fresh.text) == ("ok", "one leads")
    assert (stale.state, stale.text) == (PROBLEM, "one has not renewed its Lease for 10m, so no job starts")
    assert never.mend.startswith("Start one: `phalanx scheduler`")


async def test_another_scheduler_is_a_problem_only_if_ours_took_its_place() -> None:
    rival = (DEPLOYMENTS, "volcano-scheduler", {"status": {"readyReplicas": 1}})
    [beside] = await _of_rivals(Cluster(lease("2025-12-31T23:59:58Z"), rival), NOW_S)
    assert (beside.state, beside.mend) == ("ok", "")
    ours = lease("2025-12-31T23:59:58Z", '{"dialects": ["volcano"]}')
    [fight] = await _of_rivals(Cluster(ours, rival), NOW_S)
    assert fight.state == PROBLEM
    assert "kubectl -n volcano-system scale deployment volcano-scheduler --replicas=0" in fight.mend


async def test_jobs_that_go_past_the_queues_are_a_warning() -> None:
    installed = [(kind, obj["metadata"]["name"], obj) for kind, obj in INSTALLED]
    [whole] = await _of_admission(Cluster(*installed))
    [half] = await _of_admission(Cluster(*installed[1:]))
    assert (whole.state, half.state) == ("ok", WARNING)


async def test_a_queue_that_starts_nothing_is_a_problem() -> None:
    condition = {"type": "Active", "status": "False", "reason": "Misconfigured", "message": "it is below itself"}
    queue = {"metadata": {"name": "lab"}, "status": {"conditions": [condition]}}
    [found] = await _of_queues(Cluster((QUEUES, "lab", queue)))
    assert (found.about, found.state, found.text) == ("queue lab", PROBLEM, "starts nothing: it is below itself")


def test_what_nodes_do_not_enforce_is_said_once_with_how_to_mend_it() -> None:
    message = "limits of memory are NOT enforced: no cgroups. Run the agent as root"
    nodes = [
        {
            "metadata": {"name": name},
            "status": {
                "conditions": [
                    {"type": "Ready", "status": ready},
                    {"type": "ResourceLimitsEnforced", "status": "False", "message": message},
                    {"type": "ImagesSupported", "status": "True", "message": "overlayfs"},
                ]
            },
        }
        for name, ready in (("a", "True"), ("b", "Unknown"))
    ]
    assert list(node_findings(nodes)) == [
        Finding(
            about="nodes",
            state=WARNING,
            text="not ready: b",
            mend="`kubectl describe node` says why; pods start on the others.",
        ),
        Finding(about="nodes", state="ok", text="1 of 2 ready"),
        Finding(
            about="ResourceLimitsEnforced on 2 nodes",
            state=WARNING,
            text="limits of memory are NOT enforced: no cgroups",
            mend="Run the agent as root",
        ),
        Finding(about="ImagesSupported on 2 nodes", state="ok", text="overlayfs"),
    ]


async def test_providers_of_node_groups_are_asked_and_lost_nodes_are_named(tmp_path: Path) -> None:
    good, bad, file = tmp_path / "good", tmp_path / "bad", tmp_path / "groups.yaml"
    states = '{"name": "g-1", "node": "n1", "state": "running"}, {"name": "g-2", "state": "running"}'
    good.write_text(f"#!/bin/sh\necho '{{\"nodes\": [{states}]}}'\n")
    bad.write_text("#!/bin/sh\necho no login >&2\nexit 1\n")
    for each in (good, bad):
        each.chmod(0o755)
    file.write_text(f"""
nodeGroups:
- {{name: a, provider: {{exec: {{command: [{good}]}}}}, allocatable: {{cpu: 1}}}}
- {{name: b, provider: {{exec: {{command: [{bad}]}}}}, allocatable: {{cpu: 1}}}}
- {{name: c, provider: {{autoscaler: {{}}}}, allocatable: {{cpu: 1}}}}
""")
    node = {"metadata": {"name": "n1", "labels": {"phalanx.dev/node-group": "a"}}}
    first, second, third = await of_node_groups(Cluster((NODES, "n1", node)), read_node_groups(file))
    text = "its provider answers: 2 running; the cluster has 1 of its nodes; not in the cluster: g-2"
    assert (first.about, first.state, first.text) == ("node group a", WARNING, text)
    assert "with the label phalanx.dev/node-group=a" in first.mend
    assert second.state == PROBLEM
    assert "ended with status 1: no login; try it by hand: echo" in second.text
    assert (third.state, third.text) == ("ok", "an autoscaler adds its nodes, of which the cluster has 0")


@pytest.mark.parametrize(("kind", "field"), [(FLAVORS, "labels"), (RESOURCE_FLAVORS, "nodeLabels")])
async def test_a_node_group_whose_nodes_are_of_no_flavor_is_named(tmp_path: Path, kind: Kind, field: str) -> None:
    file = tmp_path / "groups.yaml"
    file.write_text("""
nodeGroups:
- {name: a, provider: {autoscaler: {}}, allocatable: {cpu: 1}, labels: {pool: a100}}
- {name: b, provider: {autoscaler: {}}, allocatable: {cpu: 1}, labels: {pool: h100}}
""")
    groups = read_node_groups(file)
    assert {each.state for each in await of_node_groups(Cluster(), groups)} == {"ok"}, "without flavors all fit"
    flavor = {"metadata": {"name": "big"}, "spec": {field: {"pool": "a100"}}}
    *_, last = await of_node_groups(Cluster((kind, "big", flavor)), groups)
    assert (last.about, last.state) == ("node group b", WARNING)
    assert last.text == "its nodes are of none of 1 flavors; those of big also have pool=a100"


async def test_a_cluster_that_gets_no_jobs_and_a_check_without_clusters_are_named() -> None:
    def active(truth: bool, message: str) -> dict[str, Any]:
        one = {"type": "Active", "status": str(truth), "message": message, "lastTransitionTime": "2026-01-01T00:00:00Z"}
        return {"conditions": [one]}

    assert await _of_clusters(Cluster()) == []
    good = (MULTI_CLUSTERS, "w1", {"metadata": {"name": "w1"}, "status": active(True, "Connected")})
    figures = json.dumps({"note": "it does not define these kinds of jobs: RayJob", "lacks": ["RayJob"]})
    lacking = (MULTI_CLUSTERS, "w3", {**good[2], "metadata": {"name": "w3", "annotations": {FIGURES: figures}}})
    [lacks, _] = await _of_clusters(Cluster(good, lacking))
    assert (lacks.about, lacks.state) == ("cluster w3", WARNING)
    assert lacks.text == "it does not define these kinds of jobs: RayJob"
    assert "install their definitions there" in lacks.mend
    away = active(False, "it cannot be reached: no answer. Look whether it runs.")
    bad = (MULTI_CLUSTERS, "w2", {"metadata": {"name": "w2"}, "status": away})
    spec = {"controllerName": "kueue.x-k8s.io/multikueue"}
    check = {"metadata": {"name": "c"}, "spec": spec, "status": active(False, "there is no MultiKueueConfig")}
    [cluster, sends, whole] = await _of_clusters(Cluster(good, bad, (ADMISSION_CHECKS, "c", check)))
    assert (cluster.about, cluster.state, cluster.mend) == ("cluster w2", WARNING, "Look whether it runs.")
    assert cluster.text == "gets no jobs: it cannot be reached: no answer"
    assert (sends.state, sends.text) == (PROBLEM, "sends jobs nowhere: there is no MultiKueueConfig")
    assert whole.text == "1 of 2 get jobs"
