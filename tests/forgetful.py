"""Decide on a state without memory: results about placement classes, request classes and searches are forgotten, and
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
    """For a moment the state remembers nothing."""
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
    """All that is decided, besides who is told what, and which of several nodes and devices that are equally good is
    taken: that depends on the order in which they were filled, and so does which group of a gang is placed first."""
    return [nameless(action) for action in plan.actions if not isinstance(action, Wait)]


def nameless(action: Action) -> Action:
    match action:
        case Start() | Place() | Nominate():
            placements = sorted(each._replace(node="", devices=()) for each in action.placements)
            return action._replace(placements=tuple(placements))
    return action


def is_searched(gang: Gang) -> bool:
    """Whether a place for it is searched within a budget (`core.placement.gang`): not every place is found, so it is
    not tried again before a node gains something that one of its pods could use."""
    return len(gang.roles) > 1 or gang.tree is not None


def decided_without_memory(cluster: Cluster, policy: Policy, now_s: float) -> list[Action]:
    with forgotten(cluster):
        return decisions(decide(cluster, policy, now_s))
