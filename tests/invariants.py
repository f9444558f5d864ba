"""Invariants of the cluster state after every fold, as code. Tests and the simulation check them after each fold.

Everything is counted again from the job records, each value in one pass of plain additions. An explanation is computed
only for a value that differs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from math import inf, isclose

from phalanx.core.fold import charging
from phalanx.core.fold.charging import queue_charge, submitted_jobs
from phalanx.core.placement.filters import matching as fit
from phalanx.core.placement.packing_order import PackingOrder, ordered_nodes, usable_rows
from phalanx.core.quota import shares
from phalanx.model.job import Phase, pods_by_role
from phalanx.model.pod import Amount, Amounts
from phalanx.model.queue import Queue
from phalanx.state.cluster import Cluster, JobRecord
from phalanx.state.pending.request_class import Kind, Request
from phalanx.state.queues.quota import Charge, Key, QueueUsage
from phalanx.state.queues.tree import QueueTree
from tests.recount import index_errors, related_truly, residents_truly

TREES = 4  # the number of queue trees that are kept for later checks


class InvariantViolation(AssertionError):
    """The state contradicts itself, or a decision broke an invariant. Both are defects."""


def check_invariants(cluster: Cluster) -> None:
    """Raise `InvariantViolation` with all contradictions."""
    held = {job: charging.used_resources(record) for job, record in cluster.jobs.items()}
    wrong = [
        *cluster.breaches,
        *rows_are_true(cluster),
        *columns_add_up(cluster),
        *layout_is_true(cluster),
        *others_add_up(cluster),
        *index_errors(cluster),
        *related_truly(cluster),
        *residents_truly(cluster),
        *usage_errors(cluster, held),
        *holders_are_true(cluster, held),
        *jobs_are_whole(cluster),
        *pending_is_true(cluster),
        *columns_are_true(cluster),
        *room_is_true(cluster),
        *tree_adds_up(cluster),
    ]
    if wrong:
        raise InvariantViolation("\n".join(wrong))


def rows_are_true(cluster: Cluster) -> Iterator[str]:
    """Yield names without a row, and names whose node is in another row."""
    columns = cluster.columns
    if columns.row_of != {name: row for row, name in enumerate(columns.names) if name}:
        yield f"the rows of nodes are {columns.row_of}, the names by row {columns.names}"
    for name, node in zip(columns.names, columns.nodes, strict=True):
        if node is not None and node.name != name:
            yield f"node {node.name} stands in the row of {name!r}"


def columns_add_up(cluster: Cluster) -> Iterator[str]:
    """Yield columns with other allocatable amounts than the nodes, and columns with other free amounts than the nodes
    have without records and foreign pods."""
    columns = cluster.columns
    said = [dict(node.allocatable) if node else {} for node in columns.nodes]
    charges = [0] * len(said)
    left = [each.copy() for each in said]
    for name, asks in holdings(cluster):
        row = columns.row_of.get(name)
        if row is None:
            yield f"a pod is charged to {name}, which has no row"
            continue
        charges[row] += 1
        free = left[row]
        for resource, amount in asks:
            free[resource] = free.get(resource, 0) - amount
    if charges != columns.charges:
        yield f"pods per row are noted as {columns.charges}, there are {charges}"
    for row, free in enumerate(left):
        for resource, shared in columns.devices.shared(row).items():
            free[resource] = free.get(resource, 0) - shared
    vacant = [0] * (columns.capacity - len(said))
    for resource, column in columns.free.items():
        has = [each.get(resource, 0) for each in said]
        if columns.allocatable[resource].tolist()[: len(has)] != has:
            yield f"{resource} allocatable is {columns.allocatable[resource]}, the nodes say {has}"
        if column.tolist() != [each.get(resource, 0) for each in left] + vacant:
            yield f"{resource} free is {column}, charges say {left} ({columns.names})"


def layout_is_true(cluster: Cluster) -> Iterator[str]:
    """Yield the differences between the stored packing order of nodes, after it is updated, and a new one."""
    columns, kept = cluster.columns, cluster.columns.packing_order
    if kept is None:
        return
    columns.packing_order = now = ordered_nodes(columns, packed=kept.packed)
    anew = PackingOrder(columns, packed=kept.packed)
    if now.rows.tolist() != anew.rows.tolist():
        yield f"nodes are laid out as {now.rows}, the order is {anew.rows}"
    for resource, column in anew.free.items():
        if now.free[resource].tolist() != column.tolist():
            yield f"{resource} free is laid out as {now.free[resource]}, it is {column}"


def holdings(cluster: Cluster) -> Iterator[tuple[str, Amounts]]:
    """Yield (node, requests) of every pod that is charged."""
    yield from cluster.foreign.values()
    for record in cluster.jobs.values():
        demands = record.gang.demands
        for where in (record.placements, record.nominated):
            for slot, node in where.items():
                yield node, demands[slot.role].asks


def jobs_are_whole(cluster: Cluster) -> Iterator[str]:
    """Yield records that contradict their gang, or the indexes of jobs."""
    for job, record in cluster.jobs.items():
        if record.gang.roles != record.job.roles:
            yield f"{job} has other roles than its gang"
        if job != record.job.id or job not in cluster.jobs_of.get(record.job.queue, ()):
            yield f"{job} is not filed under its id and queue"
        if record.queue != cluster.queue_of(record.job):
            yield f"{job} is in queue {cluster.queue_of(record.job)}, but its record says {record.queue}"
        if bool(record.nominated) != (job in cluster.nominated) or bool(record.leaving) != (job in cluster.leaving):
            yield f"{job} is noted as promised {job in cluster.nominated} and leaving {job in cluster.leaving}"
        if record.leaving - record.placements.keys():
            yield f"{job} is to give up what it does not hold"
        if record.placements.keys() & record.open.keys():
            yield f"{job} has a slot that is both placed and open"
        if list(record.placed) != pods_by_role(record.placements, len(record.job.roles)):
            yield f"{job} has {record.placed} pods placed per role, noted is {record.placements}"
        yield from phase_is_true(job, record)


def phase_is_true(job: str, record: JobRecord) -> Iterator[str]:
    if record.phase is Phase.QUEUED:
        if record.placements or record.open:
            yield f"{job} is queued and yet holds or wants nodes"
        return
    if record.phase is not Phase.STOPPING and record.nominated.keys() - record.open.keys():
        yield f"{job} is {record.phase} and still promised room for what it does not want"
    if record.attempt < 1:
        yield f"{job} is {record.phase} after no start"


def others_add_up(cluster: Cluster) -> Iterator[str]:
    held: dict[str, int] = {}
    on: dict[str, dict[str, int]] = {}
    for node, asks in cluster.foreign.values():
        here = on.setdefault(node, {})
        for resource, amount in asks:
            held[resource] = held.get(resource, 0) + amount
            here[resource] = here.get(resource, 0) + amount
    if not alike(held, cluster.foreign_usage):
        yield f"pods of others hold {held}, noted is {cluster.foreign_usage}"
    if any(
        not alike(on.get(node, {}), cluster.foreign_usage_on.get(node, {})) for node in on | cluster.foreign_usage_on
    ):
        yield f"pods of others hold {on}, noted is {cluster.foreign_usage_on}"


def holders_are_true(cluster: Cluster, held: Mapping[str, Mapping[str, Amount]]) -> Iterator[str]:
    """Check the usage of each resource by queue, user and group. `held`: job -> the sum of its pods."""
    true: dict[str, dict[str, Amount]] = {}
    for job, amounts in held.items():
        for resource, amount in amounts.items():
            true.setdefault(resource, {})[job] = amount
    noted = cluster.consumers.held
    for resource in true | noted:
        if true.get(resource, {}) != noted.get(resource, {}):
            yield f"{resource} is held by {true.get(resource)}, noted is {noted.get(resource)}"


def tree_adds_up(cluster: Cluster) -> Iterator[str]:
    """Yield queues whose account differs from that of a new tree to which every record is charged."""
    tree, charges = cluster.tree, list[Charge]()
    if tree.stale or tree.pool_stale:
        yield "the queue tree is not up to date"
    for job, record in cluster.jobs.items():
        due = queue_charge(cluster, record)
        if due != record.charge:
            yield f"{job} is charged {record.charge} to its queue, and due is {due}"
        if due is not None:
            charges.append(due)
    anew = charged_anew(cluster, charges)
    if tree.branches.keys() != anew.branches.keys():
        yield f"the tree has {sorted(tree.branches)}, the queues are {sorted(anew.branches)}"
    for name, true in anew.branches.items():
        if name in tree.branches and not equal(noted := tree.branches[name].account, true.account):
            yield f"queue {name!r} is charged {noted.shown()}, the records say {true.account.shown()}"
    for name, branch in tree.branches.items():
        if name in anew.branches and branch.charged != anew.branches[name].charged:
            yield f"queue {name!r} is charged for {branch.charged}, the records say {anew.branches[name].charged}"
        for extra, known in branch.account.shares.items():
            if known != (now := shares.dominant_share(branch, branch.account, tree.pool, extra)):
                yield f"the share of queue {name!r} with {extra} more is kept as {known} and is {now}"
    if cluster.tree.submitted.lists != (counts := submitted_jobs(cluster).lists):
        yield f"submitted jobs are counted as {cluster.tree.submitted.lists}, there are {counts}"
    if not alike(tree.pool, has := pool_of(cluster)):
        yield f"the tree's pool is {tree.pool}, the nodes have {has}"


def equal(one: QueueUsage, other: QueueUsage) -> bool:
    return (
        one.running == other.running
        and alike(one.total, other.total)
        and alike(one.claimed, other.claimed)
        and alike(one.own, other.own)
        and tallied(one) == tallied(other)
    )


def alike(one: Mapping[Key, Amount] | Mapping[str, Amount], other: Mapping[Key, Amount] | Mapping[str, Amount]) -> bool:
    """Return whether the two mappings are equal but for zeros."""
    if one == other:
        return True
    return {key: amount for key, amount in one.items() if amount} == {
        key: amount for key, amount in other.items() if amount
    }


def tallied(account: QueueUsage) -> list[object]:
    """Return the usage of each user, each group and each job."""
    return [
        (name, each.running, {key: used for key, used in each.used.items() if used})
        for tallies in (account.users, account.groups, account.jobs)
        for name, each in sorted(tallies.items())
    ]


def pool_of(cluster: Cluster) -> dict[Key, int]:
    """Return the sum of the amounts of all nodes, and of all nodes that may be requested, by flavor and resource. Each
    node is added on its own."""
    flavors = [(flavor.name, set(flavor.labels)) for flavor in cluster.flavors.values()]
    pool: dict[Key, int] = {}
    groups = cluster.columns.groups.known.values()
    more = (
        each.template
        for each in groups
        for _ in range(each.max_nodes - sum(node.group == each.name for node in cluster.columns))
    )
    for node in (*cluster.columns, *more):
        of = ["", *(name for name, labels in flavors if labels <= set(node.labels))] if flavors else [""]
        for resource, amount in node.allocatable:
            for flavor in of:
                pool[flavor, resource] = pool.get((flavor, resource), 0) + amount
    for wants, template in ((each.on_demand, each.template) for each in groups if each.on_demand is not None):
        for resource, amount in template.allocatable:
            for flavor in ("", *(wants.flavors or (name for name, _ in flavors))):
                pool[flavor, resource] = pool.get((flavor, resource), 0) + amount
    return pool


def charged_anew(cluster: Cluster, charges: Sequence[Charge]) -> QueueTree:
    """Return a tree of the same queues with these charges, and no others."""
    tree = tree_of(tuple(cluster.queues.values()), tuple(cluster.flavors))
    tree.clear()
    for charge in charges:
        tree.charge(charge, 1)
    return tree


_TREES: list[tuple[tuple[Queue, ...], tuple[str, ...], QueueTree]] = []


def tree_of(queues: tuple[Queue, ...], flavors: tuple[str, ...]) -> QueueTree:
    """Return an empty tree of these queues. The last few trees are kept. Comparing queues costs less than hashing them,
    because most of them are the same objects."""
    for of, named, tree in _TREES:
        if of == queues and named == flavors:
            return tree
    tree = QueueTree()
    tree.build({queue.name: queue for queue in queues}, flavors)
    _TREES.insert(0, (queues, flavors, tree))
    del _TREES[TREES:]
    return tree


def pending_is_true(cluster: Cluster) -> Iterator[str]:
    """Check that no request is in two places: new, waiting until a time, or in a request class. Only requests of queued
    jobs and of open slots are in these places, and only these requests may lack a reported reason."""
    pending = cluster.pending
    requests = set(pending.fresh) | {item for item in pending.timers if isinstance(item, Request)}
    for key, request_class in pending.request_classes.items():
        if request_class.key != key:
            yield f"a request class of {len(request_class)} is kept under a wrong key"
        if requests & request_class.requests():
            yield f"requests wait in two places: {sorted(requests & request_class.requests())}"
        requests |= request_class.requests()
    asked = {Request(job) for job, record in cluster.jobs.items() if record.phase is Phase.QUEUED}
    asked |= {Request(job, slot) for job, record in cluster.jobs.items() for slot in record.open}
    if strangers := requests - asked:
        yield f"what does not ask for room waits: {sorted(strangers)}"
    if strangers := pending.unreported.keys() - requests:
        yield f"who does not wait is to be told why: {sorted(strangers)}"


def columns_are_true(cluster: Cluster) -> Iterator[str]:
    """Check that the columns of request classes and placement classes equal the data of their queues and gangs."""
    pending, used = cluster.pending, Counter[int]()
    columns = pending.columns
    live = {request_class.number: request_class for request_class in pending.request_classes.values()}
    if {
        number for number in range(len(columns.request_classes)) if columns.placement_class[number] >= 0
    } != live.keys():
        yield "request classes are vacant that are not, or the other way round"
    for number, request_class in live.items():
        first, found = request_class.first, pending.placement_classes.by_number[int(columns.placement_class[number])]
        used[int(columns.placement_class[number])] += 1
        if (
            columns.request_classes[number] is not request_class
            or found is not request_class.placement_class
            or found.key.gang is not request_class.key.gang
        ):
            yield f"the request class of {request_class.key.queue} is of another class"
        if (columns.arrival_s[number], columns.priority[number]) != (first.arrival_s, request_class.key.priority):
            yield f"the request class of {request_class.key.queue} is led by another than {first}"
        if request_class.key.kind != Kind.REPLACEMENT and request_class.strict != (
            cluster.tree.strict_above(request_class.key.queue) is not None
        ):
            yield f"the request class of {request_class.key.queue} is not known to be in a strict queue, or wrongly"
    classes = list(pending.placement_classes)
    used.update(way.number for each in classes for way in each.flavor_classes)
    if used != {each.number: each.references for each in classes}:
        yield "placement classes count other request classes than they have"


def room_is_true(cluster: Cluster) -> Iterator[str]:
    """Check that incremental counts of pods equal the actual counts. The check is left out if nodes have changed since
    the count."""
    known, columns = cluster.pending.capacity, cluster.columns
    if known.counted_at != (columns.described, len(columns.free)) or columns.recharged:
        return
    rows = usable_rows(columns)
    for number, demand in enumerate(known.demands):
        if demand is not None and number not in known.uncounted:
            matching = rows[fit.matching(columns.attributes, demand.where)[rows]]
            if (true := int(fit.pods_held(columns.free, demand.asks, matching).sum())) != known.room[number]:
                yield f"{known.room[number]} pods are counted of a demand of which the nodes hold {true}"


def usage_errors(cluster: Cluster, held: Mapping[str, Mapping[str, Amount]]) -> Iterator[str]:
    """Check the usage that is recorded for each user. `held`: job -> the amounts that its record holds."""
    of_users: dict[tuple[str, str], dict[str, Amount]] = {}
    jobs: dict[tuple[str, str], int] = {}
    for name, record in cluster.jobs.items():
        whose = (record.job.queue, record.job.association)
        jobs[whose] = jobs.get(whose, 0) + 1
        of_user = of_users.setdefault(whose, {})
        for resource, amount in held[name].items():
            of_user[resource] = of_user.get(resource, 0) + amount
    for queue, user, meter in cluster.usage:
        if meter.jobs != jobs.get((queue, user), 0):
            yield f"user {user!r} has {jobs.get((queue, user), 0)} jobs in queue {queue!r}, noted are {meter.jobs}"
        truth = of_users.pop((queue, user), {})
        if meter.held != truth:
            yield f"user {user!r} holds {truth} in queue {queue!r}, noted for usage is {meter.held}"
        if not 0 <= meter.usage < inf:
            yield f"the usage of {user!r} in queue {queue!r} is {meter.usage}"
        due = meter.price.rate(truth)
        if (meter.rate or truth) and not isclose(meter.rate, due):
            yield f"user {user!r} is charged {meter.rate} a second in queue {queue!r}, due is {due}"
    yield from (f"user {user!r} has no meter in queue {queue!r}" for queue, user in of_users)
