"""Compute the reason why a request was not placed, with the numbers that explain it.

The reason has the first of these codes that applies:

- `NO_NODE_MATCHES`: no node matches the constraints of a role.
- `NEVER_FITS`: a role, or all roles together, would not fit even on empty nodes. If a count of pods cannot show
  this, `core.reasons.never` tries to place the gang.
- `ROOM_KEPT`: the gang would fit on empty nodes if no part of these nodes were reserved for other jobs.
- `NO_DOMAIN`: all nodes together have enough capacity, but no single topology domain has.
- `PLACEMENT_RULES`: nodes have enough capacity, but filters reject them.
- `NO_ROOM`: the gang would fit on empty nodes, but too little capacity is free at present.

An attempt to place a gang may place some pods before it finds no node for the next pod. In the numbers of a
reason, `placed` is the number of these pods. `left_on_one_node` has the largest amounts that were then free on one
node. `free` has the total amounts that were free before the attempt. All numbers are from the last cycle that tried the
request class."""

from __future__ import annotations

from dataclasses import replace
from heapq import nsmallest
from itertools import islice
from operator import attrgetter
from typing import Any

import numpy as np

from phalanx.core.placement.draft import Draft
from phalanx.core.placement.filters import matching as fit
from phalanx.core.placement.gang import PlacementShortfall, place
from phalanx.core.reasons.never import by_itself, filtered_out, never_fits, no_domain, singular
from phalanx.core.reasons.no_capacity import CycleGrants, a_pod, no_room, nodes, written
from phalanx.core.reasons.stated import stated_asks
from phalanx.model.job import Role
from phalanx.model.node import NodeGroup
from phalanx.model.pod import PODS, format_amount
from phalanx.model.reason import Reason, ReasonCode, format_time
from phalanx.state.classes import Demand, Gang
from phalanx.state.cluster import Cluster, JobRecord
from phalanx.state.nodes.table import NodeTable

QUEUES_NAMED = 10  # if the job's queue does not exist, the reason names at most this many existing queues
KEPT_NAMED = 3  # a reason names at most this many reserved parts of nodes
GROUPS_NAMED = 3  # a reason names at most this many node groups


def why_not(cluster: Cluster, draft: Draft, gang: Gang, shortfall: PlacementShortfall, granted: CycleGrants) -> Reason:
    """Return the reason why the gang was not placed. `granted`: the grants of this cycle so far."""
    near = no_domain(gang, shortfall.nearest) if shortfall.nearest is not None else None
    reason = (
        never(cluster, draft, gang, near)
        or near
        or (filtered_out(draft, gang, shortfall) if draft.objections else None)
        or no_room(cluster, draft, gang, shortfall, granted)
    )
    if cluster.columns.groups.known and reason.more_nodes_help:
        reason = with_group_limits(cluster, gang, reason)
    return with_failed_requests(cluster, gang, reason) if cluster.columns.groups.failed else reason


def with_group_limits(cluster: Cluster, gang: Gang, reason: Reason) -> Reason:
    """Return the reason. If no node group can provide nodes for the gang, add to its text which label or amount the
    groups lack and what the user can change."""
    groups = cluster.columns.groups.known.values()
    if any(group.on_demand is not None for group in groups):
        return reason
    for at in gang.required_roles:
        text = without_label(cluster, gang.demands[at]) if reason.code is ReasonCode.NO_NODE_MATCHES else ""
        if text := text or beyond_groups(cluster, gang.demands[at], gang.roles[at]):
            text = f"{reason.text}; {text}"
            return Reason(code=reason.code, text=text, numbers=reason.numbers, more_nodes_help=reason.more_nodes_help)
    return reason


def without_label(cluster: Cluster, demand: Demand) -> str:
    """Return a text that names a label which the job's flavor or node selector requires, but no suitable node group
    has. Return an empty text if there is no such label. A group is suitable if its nodes are large enough for the
    demand."""
    groups = [group for group in cluster.columns.groups.known.values() if holds(group, demand)]
    lacks = [set(demand.where.selector) - set(group.template.labels) for group in groups]
    if not all(lacks):
        return ""
    missing = [f"{key}={value}" for key, value in demand.where.selector if all((key, value) in each for each in lacks)]
    if not groups or not missing:
        return ""
    one = f"node group {groups[0].name} does not have" if len(groups) == 1 else "no node group has"
    return f"{one} the label {missing[0]}, which the job's flavor or node selector requires"


def beyond_groups(cluster: Cluster, demand: Demand, role: Role) -> str:
    """Return a text if the role's minimum would not fit even with all node groups at their maximum size. The text names
    the groups and what the user can change. Otherwise return an empty text. Node selectors and taints are not
    checked."""
    columns, groups = cluster.columns, cluster.columns.groups.known.values()
    useful = {group.name: group for group in groups if holds(group, demand)}
    if not useful:
        largest = {
            name: max(dict(each.template.allocatable).get(name, 0) for each in groups) for name, _ in demand.asks
        }
        short = [
            f"{format_amount(name, amount)} {name}, and a node of a node group has at most "
            f"{format_amount(name, largest[name])}"
            for name, amount in stated_asks(demand).items()
            if amount > largest[name]
        ]
        return f"a pod requests {'; '.join(short)}: add a node group with larger nodes" if short else ""
    rows = [int(row) for row in fit.matching(columns.attributes, demand.where).nonzero()[0]]
    others = [row for row in rows if (node := columns.nodes[row]) is not None and node.group not in useful]
    beside = int(fit.pods_held(columns.allocatable, demand.asks, np.array(others, np.intp)).sum())
    most = sum(each.max_nodes * pods_of_a_node(each, demand) for each in useful.values())
    if beside + most >= role.minimum:
        return ""
    named = ", ".join(f"{each.name} (max {each.max_nodes} nodes)" for each in islice(useful.values(), GROUPS_NAMED))
    more = f" and {len(useful) - GROUPS_NAMED} more" if len(useful) > GROUPS_NAMED else ""
    return (
        f"node group{'s' if len(useful) > 1 else ''} {named}{more} can hold {most} of {counted(role)}: raise max, or "
        "request fewer pods"
    )


def pods_of_a_node(group: NodeGroup, demand: Demand) -> int:
    """Return how many pods of the demand an empty node of the group holds."""
    has = dict(group.template.allocatable)
    return min((has.get(name, 0) // amount for name, amount in demand.asks if amount), default=0)


def with_failed_requests(cluster: Cluster, gang: Gang, reason: Reason) -> Reason:
    """Return the reason. If a node group was asked for nodes that the gang could use, and has not provided them, add a
    text about this failure."""
    now_s, notes = cluster.now_s, []
    for name, failed in cluster.columns.groups.failed.items():
        if name in cluster.columns.groups.known and any(
            holds(cluster.columns.groups.known[name], each) for each in gang.demands
        ):
            why = f" ({failed.text})" if failed.text else ""
            notes.append(
                f"{nodes(failed.nodes)} of {name}, requested at {format_time(failed.requested_s, now_s)}, did not "
                f"arrive by {format_time(failed.failed_s, now_s)}{why}; nodes of {name} are requested again from "
                f"{format_time(failed.retry_s, now_s)}"
            )
    if not notes:
        return reason
    text = "; ".join([reason.text, *notes])
    return Reason(code=reason.code, text=text, numbers=reason.numbers, more_nodes_help=reason.more_nodes_help)


def holds(group: NodeGroup, demand: Demand) -> bool:
    """Return whether an empty node of the group has the amounts that a pod of the demand requests. Return False for a
    group on demand (`NodeGroup.on_demand`), because the amounts of its nodes are not known in advance."""
    has = {} if group.on_demand is not None else dict(group.template.allocatable)
    return all(has.get(name, 0) >= amount for name, amount in demand.asks)


def never(cluster: Cluster, draft: Draft, gang: Gang, near: Reason | None = None) -> Reason | None:
    """Return the reason why the gang would not fit even on empty nodes; None if it may fit. `near`: the reason of the
    failed attempt, if it failed because no topology domain had enough capacity; otherwise None."""
    reason = None
    for at in gang.required_roles:
        most = fit.empty_capacity(cluster.columns, gang.demands[at])
        if most < gang.roles[at].minimum:
            reason = impossible(cluster, gang.demands[at], gang.roles[at], most)
            break
    if reason is None and near is not None and near.code is ReasonCode.NEVER_FITS:
        reason = near
    if reason is None and (gang.tree is not None or len(gang.roles) != 1 or not gang.demands[0].unconstrained):
        # for all other gangs, the count above is exact
        reason = together(cluster, gang) or never_fits(cluster, draft, gang)
    return reason and unless_room_is_kept(cluster, draft, gang, reason)


def unless_room_is_kept(cluster: Cluster, draft: Draft, gang: Gang, never: Reason) -> Reason:
    """Return `never`, the reason why the gang does not fit on empty nodes. But if the gang would fit without the parts
    of nodes that are reserved for other jobs, return a reason that names these parts. It is unknown when reserved parts
    will be released. So a gang with either reason does not block a strict queue."""
    columns, unkept = cluster.columns, unkept_table(cluster.columns)
    if unkept is None or never.code is not ReasonCode.NEVER_FITS or not fits_unkept(cluster, draft, gang, unkept):
        return never
    matching = np.logical_or.reduce([fit.matching(columns.attributes, demand.where) for demand in gang.demands])
    rows = ((node, columns.row_of.get(node.part_of)) for node in columns)
    parts = sorted((node for node, row in rows if row is not None and matching[row]), key=attrgetter("name"))
    kept, asked = {node.name: dict(node.allocatable) for node in parts}, gang.asked.keys() - {PODS} or {PODS}
    named = [
        f"{name} ({written(tuple((each, amount) for each, amount in amounts.items() if each in asked))})"
        for name, amounts in islice(kept.items(), KEPT_NAMED)
    ]
    more = f" and {len(kept) - KEPT_NAMED} more" if len(kept) > KEPT_NAMED else ""
    text = f"it would fit if no room were kept for others: {never.text}; kept is {', '.join(named)}{more}"
    return replace(never, code=ReasonCode.ROOM_KEPT, text=text, numbers={**never.numbers, "kept": kept})


def unkept_table(columns: NodeTable) -> NodeTable | None:
    """Return a node table in which all nodes are empty and no part of a node is reserved for other jobs. Return None if
    no part is reserved. The table is cached with the node attributes."""
    known: tuple[NodeTable | None] | None = columns.attributes.derived.get(unkept_table)
    if known is None:
        known = (columns.unkept() if any(node.part_of for node in columns) else None,)
        fit.cache_answer(columns.attributes, unkept_table, known)
    return known[0]


def fits_unkept(cluster: Cluster, draft: Draft, gang: Gang, unkept: NodeTable) -> bool:
    """Return whether the gang fits on the empty nodes of `unkept`. The result is cached with the node attributes."""
    attributes = cluster.columns.attributes
    known: bool | None = attributes.derived.get((fits_unkept, gang))
    if known is None:
        alone = by_itself(cluster, gang)
        known = not isinstance(place(Draft(unkept, draft.topologies), alone), PlacementShortfall)
        fit.cache_answer(attributes, (fits_unkept, gang), known)
    return known


def queue_unknown(cluster: Cluster, record: JobRecord, default_queue: str) -> Reason:
    name = record.job.queue or default_queue
    first, more = nsmallest(QUEUES_NAMED, cluster.queues), len(cluster.queues) - QUEUES_NAMED
    known = (", ".join(first) or "none") + (f" and {more} more" if more > 0 else "")
    via = "" if record.job.queue else " (the default, since the job names none)"
    return Reason(
        code=ReasonCode.QUEUE_UNKNOWN,
        text=f"there is no queue {name!r}{via}; queues: {known}",
        numbers={"queue": name, "queues": first},
    )


def may_get_nodes(cluster: Cluster, queue: str, gang: Gang) -> bool:
    """Return whether node groups could provide a large enough node for each pod of the gang. `queue`: the queue of the
    gang's job."""
    groups = cluster.columns.groups.known.values()
    if any(group.on_demand is not None and group.on_demand.queue == queue for group in groups):
        return True
    return all(any(holds(group, demand) for group in groups) for demand in gang.demands)


def backoff(record: JobRecord, now_s: float) -> Reason:
    """Return the reason of a job whose last start has failed. The reason states the time at which the scheduler tries
    again."""
    why = record.refusal.text if record.refusal else "its last start came to nothing"
    return Reason(
        code=ReasonCode.BACKOFF,
        text=f"start {record.attempt} came to nothing: {why}; tried again at {format_time(record.not_before_s, now_s)}",
        numbers={"attempt": record.attempt, "not_before_s": record.not_before_s},
    )


def impossible(cluster: Cluster, demand: Demand, role: Role, most: int) -> Reason:
    """Return the reason why the role alone would not fit even on empty nodes. `most`: the number of its pods that empty
    nodes could hold; less than the role's minimum."""
    rows = fit.matching(cluster.columns.attributes, demand.where).nonzero()[0]
    if not len(rows):
        return no_node_matches(cluster, demand, role)
    if not most:
        return larger_than_any_node(cluster, demand, role, rows)
    return Reason(
        code=ReasonCode.NEVER_FITS,
        text=f"{counted(role)} asked, but the matching nodes ({len(rows)}) can hold {most} of them when empty "
        f"({written(demand.asks)} each)",
        numbers={"role": role.name, "pods": role.minimum, "hold": most, "nodes": len(rows)},
        more_nodes_help=True,
    )


def no_node_matches(cluster: Cluster, demand: Demand, role: Role) -> Reason:
    facts, coming = cluster.columns.attributes, cluster.columns.groups.coming
    # the names of nodes that were requested from a node group and do not exist yet
    requested = {name for name, each in coming.items() if not each.is_seen}
    rows = [row for row, node in enumerate(cluster.columns.nodes) if node is not None and node.name not in requested]
    left, total = np.zeros(facts.capacity, np.bool_), len(rows)
    left[rows] = True
    failed: dict[str, int] = {}
    for text, passed in (("are not ready", facts.ready), *fit.node_filters(facts, demand.where)):
        if count := int((left & ~passed).sum()):
            failed[text if count > 1 else singular(text)] = count
        left &= passed
    listed = ", ".join(f"{count} {text}" for text, count in failed.items())
    text = f"of {nodes(total)} {listed}" if total else "there are no nodes"
    return Reason(
        code=ReasonCode.NO_NODE_MATCHES,
        text=f"no node matches {a_pod(role)}: {text}",
        numbers={"role": role.name, "nodes": total, "failed": failed},
        more_nodes_help=True,
    )


def larger_than_any_node(cluster: Cluster, demand: Demand, role: Role, rows: np.ndarray[Any, Any]) -> Reason:
    largest = {name: largest_of(cluster.columns.allocatable.get(name), rows) for name, _ in demand.asks}
    asked = stated_asks(demand)
    beyond = [(name, amount) for name, amount in asked.items() if amount > largest[name]]
    if beyond:
        parts = (
            f"{format_amount(n, a)} {n}, but the largest node has {format_amount(n, largest[n])}" for n, a in beyond
        )
        text = f"{a_pod(role)} asks {'; '.join(parts)}"
    else:
        text = f"{a_pod(role)} asks {written(demand.asks)}, and no node has as much of all of it"
    return Reason(
        code=ReasonCode.NEVER_FITS,
        text=text,
        numbers={"role": role.name, "asked": asked, "largest": largest, "nodes": len(rows)},
        more_nodes_help=True,
    )


def together(cluster: Cluster, gang: Gang) -> Reason | None:
    """Return the reason if the roles of the gang together request more of a resource than all ready nodes have when
    empty; None if all nodes have enough."""
    if len(gang.roles) == 1 or len(gang.required_roles) < len(gang.roles):
        return None
    rows = cluster.columns.attributes.ready.nonzero()[0]
    for name, asked in gang.asked.items():
        column = cluster.columns.allocatable.get(name)
        has = 0 if column is None else int(column[rows].sum())
        if asked > has:
            return Reason(
                code=ReasonCode.NEVER_FITS,
                text=f"the gang asks {format_amount(name, asked)} {name} in all, "
                f"but the whole cluster has {format_amount(name, has)}",
                numbers={"resource": name, "asked": asked, "allocatable": has, "nodes": len(rows)},
                more_nodes_help=True,
            )
    return None


def of_slots(record: JobRecord, reason: Reason, granted: int) -> Reason:
    """Return the reason of a started job that waits for nodes for further pods. The text states how many pods of the
    job have a node; then follows the text of `reason`, which is about the next pod. `granted`: the number of pods that
    got a node in this cycle."""
    bound, waiting = len(record.placements) + granted, len(record.open) - granted
    return Reason(
        code=reason.code,
        text=f"{bound} of its {bound + waiting} pods have a node; for the next, {reason.text}",
        numbers={**reason.numbers, "bound": bound, "open": waiting},
        more_nodes_help=reason.more_nodes_help,
    )


def largest_of(column: np.ndarray[Any, Any] | None, rows: np.ndarray[Any, Any]) -> int:
    return 0 if column is None else int(column[rows].max(initial=0))


def counted(role: Role) -> str:
    pods = "1 pod" if role.minimum == 1 else f"{role.minimum} pods"
    return f"{pods} of role {role.name}" if role.name else pods
