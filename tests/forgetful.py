"""Decide on a state without memory. Results about placement classes, request classes and searches are removed, and the
usage of nodes is counted again. Only facts are left: the pending jobs with their times, the order of searches for
victims, and failed searches within a budget, with their reasons."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from phalanx.core.decide import decide
from phalanx.model.plan import Action, Nominate, Place, Plan, Start, Wait
from phalanx.model.policy import Policy
from phalanx.state.classes import Gang
from phalanx.state.cluster import Cluster
from phalanx.state.pending.pending import Pending
from phalanx.state.pending.request_class import Blocker


@contextmanager
def forgotten(cluster: Cluster) -> Iterator[None]:
    """Remove the remembered results from the state, and restore them at the end of the `with` block."""
    pending, foreseen = cluster.pending, cluster.ends.foreseen
    charged, subjects, changed = (
        dict(cluster.tree.charged),
        dict(cluster.tree.subjects),
        dict(cluster.columns.pod_index.changed),
    )
    recharged = dict(cluster.columns.recharged)
    cluster.pending, cluster.ends.foreseen = without_findings(cluster), None
    try:
        yield
    finally:
        cluster.pending, cluster.ends.foreseen = pending, foreseen
        cluster.tree.charged, cluster.tree.subjects = charged, subjects
        cluster.columns.pod_index.changed.update(changed)
        cluster.columns.recharged.update(recharged)


def without_findings(cluster: Cluster) -> Pending:
    pending = cluster.pending.copy(cluster.tree)
    for found in list(pending.placement_classes.failed):
        if not is_searched(found.key.gang):
            del pending.placement_classes.failed[found]
    pending.columns.reported_blocker[:] = Blocker.NONE_REPORTED
    for found in pending.placement_classes:
        if found not in pending.placement_classes.failed:
            found.reason = None  # else it would be tried again to be explained
    for request_class in pending.request_classes.values():
        request_class.reason = None
    pending.searched = {
        key: search if search.changes < 0 or is_searched(key.gang) else search._replace(changes=pending.changes + 1)
        for key, search in pending.searched.items()
    }
    return pending


def decisions(plan: Plan) -> list[Action]:
    """Return all decisions without names of nodes and devices, and without reasons. The choice among equally good nodes
    and devices is left out, because it depends on the order in which they were filled. The same order decides which
    group of a gang is placed first."""
    return [nameless(action) for action in plan.actions if not isinstance(action, Wait)]


def nameless(action: Action) -> Action:
    match action:
        case Start() | Place() | Nominate():
            placements = sorted(each._replace(node="", devices=()) for each in action.placements)
            return action._replace(placements=tuple(placements))
    return action


def is_searched(gang: Gang) -> bool:
    """Return whether the search for a placement of the gang has a budget (`core.placement.gang`). This search may miss
    a placement. So it is not repeated before a node gains amounts that one of the gang's pods could use."""
    return len(gang.roles) > 1 or gang.tree is not None


def decided_without_memory(cluster: Cluster, policy: Policy, now_s: float) -> list[Action]:
    with forgotten(cluster):
        return decisions(decide(cluster, policy, now_s))
