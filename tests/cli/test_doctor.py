"""`phalanx doctor`: what is wrong is said with how to mend it, and nothing else is called wrong."""

from __future__ import annotations

from typing import Any

from phalanx.cli.commands.administer.doctor import _of_admission, _of_queues, _of_rivals, _of_scheduler, node_findings
from phalanx.cli.commands.administer.node_group_findings import PROBLEM, WARNING, Finding
from phalanx.client.kind import DEPLOYMENTS, LEASES, Kind
from phalanx.kube.install.admission_policy import INSTALLED
from phalanx.kube.install.definitions import QUEUES
from tests.cli.doctored import Cluster

NOW_S = 1_767_225_600.0  # 2026-01-01T00:00:00Z


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
    assert (found.about, found.state, found.text) == ("queue lab", PROBLEM, "starts no jobs: it is below itself")


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
            mend="`kubectl describe node` shows why; pods start on the other nodes.",
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
