"""Groups on demand: nodes that somebody else chooses for the pods of one job (a ProvisioningRequest).

Such a group has no template. The pods of a job are nominated to one placeholder that is as large as all of them, so
the job has its quota while it waits. When the job fits on present nodes, the nomination is withdrawn, and the core
starts the job in the next cycle.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from phalanx.core.placement.draft import Draft
from phalanx.core.placement.gang import PlacementShortfall, place
from phalanx.core.quota.flavor_assignment import FlavorAssignment
from phalanx.model.job import Placement
from phalanx.model.node import NodeGroup, parts_of
from phalanx.model.policy import Policy
from phalanx.state.classes import Gang
from phalanx.state.cluster import Cluster, JobRecord, minimum_gang

TRIED = 64  # jobs that are tried on present nodes in one cycle


def group_for(cluster: Cluster, queue: str, offer: FlavorAssignment) -> NodeGroup | None:
    """Return the group that adds nodes for a job of the queue with this offer; None if there is none."""
    flavors = {part for flavor in offer.flavors for part in parts_of(flavor)}
    asked = {resource for demand in offer.gang.demands for resource, _ in demand.asks}
    for group in cluster.columns.groups.known.values():
        wants = group.on_demand
        if wants is None or wants.queue != queue:
            continue
        if (not wants.flavors or flavors & {*wants.flavors}) and (not wants.resources or asked & {*wants.resources}):
            return group
    return None


def placements_on(gang: Gang, placeholder: str) -> list[Placement]:
    """Return placements of the gang's minimum on a placeholder."""
    return [
        Placement(role, ordinal, placeholder)
        for role, each in enumerate(gang.roles)
        for ordinal in range(each.count if each.minimum else 0)
    ]


def that_fit(cluster: Cluster, policy: Policy) -> Iterator[JobRecord]:
    """Yield the jobs that wait for nodes on demand and fit on present nodes, one after the other. They are tried again
    only when a node has changed."""
    groups, columns = cluster.columns.groups, cluster.columns
    waiting = [cluster.jobs[job] for job in cluster.nominated if waits_on_demand(cluster, cluster.jobs[job])]
    changes = sum(columns.stamps[row] for row in columns.attributes.ready.nonzero()[0].tolist())
    if not waiting or changes == groups.tried_at:
        return
    groups.tried_at = changes
    draft = Draft(columns, cluster.topologies(policy), policy.score)
    for record in islice(waiting, TRIED):
        flavored = cluster.with_flavors(record.gang, record.flavors) if record.flavors else record.gang
        gang = minimum_gang(cluster, flavored)
        if not isinstance(place(draft, gang), PlacementShortfall):
            yield record


def waits_on_demand(cluster: Cluster, record: JobRecord) -> bool:
    """Return whether the job is nominated to the placeholder of a group on demand."""
    groups = cluster.columns.groups
    node = next(iter(record.nominated.values()), "")
    coming = groups.coming.get(node)
    group = groups.known.get(coming.group) if coming is not None else None
    return group is not None and group.on_demand is not None
