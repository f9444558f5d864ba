"""The findings of `phalanx doctor` about other clusters to which jobs are sent, and about unfinished moves to another
cluster."""

from __future__ import annotations

import asyncio

from phalanx.cli.commands.administer.node_group_findings import OK, PROBLEM, WARNING, Finding, hidden
from phalanx.cli.terminal.output import counted
from phalanx.cli.views.cluster_view import view_of
from phalanx.client.connection import ApiRefusal, Connection
from phalanx.client.kind import JOBS, PODS
from phalanx.clusters.question import PRICE
from phalanx.dialects.kueue.kinds import ADMISSION_CHECKS, MULTI_CLUSTERS
from phalanx.dialects.kueue.tree.checks import CONTROLLER
from phalanx.kube.read.labels import MOVING

_RESTRICTED = (
    "To send such jobs to this cluster, install their definitions in it, and allow the account of Phalanx in it to "
    "list them, nodes "
    "and pods: docs/guide/several-clusters.md, step 1."
)


async def of_clusters(connection: Connection) -> list[Finding]:
    """Return findings about other clusters that get no jobs or only some kinds of jobs, and about admission checks
    without a usable cluster."""
    try:
        clusters, checks = await asyncio.gather(connection.list(MULTI_CLUSTERS), connection.list(ADMISSION_CHECKS))
    except ApiRefusal as error:  # if the kinds of Kueue are not installed, there are no other clusters
        return [hidden("clusters", "MultiKueueClusters")] if error.code == 403 else []
    views = [view_of(each) for each in clusters["items"]]
    found = [
        Finding(about=f"cluster {view.name}", state=WARNING, text=f"gets no jobs: {view.why}", mend=view.mend)
        for view in views
        if not view.active
    ]
    found += [
        Finding(about=f"cluster {view.name}", state=WARNING, text=view.figures.note, mend=_RESTRICTED)
        for view in views
        if view.active and view.figures.note
    ]
    found += [
        Finding(
            about=f"cluster {view.name}",
            state=WARNING,
            text=view.offer.wrong.partition(": write,")[0],
            mend=f"Write RESOURCE=PRICE pairs into the annotation {PRICE} of the MultiKueueCluster.",
        )
        for view in views
        if view.offer.wrong
    ]
    found += [
        Finding(
            about=f"AdmissionCheck {check['metadata']['name']}",
            state=PROBLEM,
            text=f"sends jobs to no cluster: {one.get('message')}",
            mend="Let its parameters name a MultiKueueConfig with an active cluster (see `phalanx clusters`).",
        )
        for check in checks["items"]
        if (check.get("spec") or {}).get("controllerName") == CONTROLLER
        for one in (check.get("status") or {}).get("conditions") or ()
        if one.get("type") == "Active" and one.get("status") != "True"
    ]
    active = sum(view.active for view in views)
    return [*found, Finding(about="clusters", state=OK, text=f"{active} of {len(views)} get jobs")] if views else found


async def of_moves(connection: Connection) -> list[Finding]:
    """Return a finding if an unfinished `phalanx move` holds jobs."""
    held = 0
    for kind in (JOBS, PODS):
        try:
            found = (await connection.list(kind))["items"]
        except ApiRefusal as error:
            if error.code != 403:
                raise
            return []
        held += sum(MOVING in (obj["metadata"].get("annotations") or {}) for obj in found)
    if not held:
        return []
    text = f"{counted(held, 'object')} of jobs held by a `phalanx move` that is unfinished or still runs"
    mend = "Repeat the same command, or undo the move: `phalanx move --to KUBECONFIG --undo`."
    return [Finding(about="moves", state=WARNING, text=text, mend=mend)]
