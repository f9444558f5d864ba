"""What must be true of the book after every fold, as code. Tests and the simulation call it each time; it is slow on
purpose: everything is counted anew from the records."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from functools import lru_cache

from phalanx.core import order, usage
from phalanx.core.layout import Layout, laid_out
from phalanx.core.recount import noted_truly
from phalanx.core.room import charge_of, counted, entrants
from phalanx.model.cluster import Cluster, Record
from phalanx.model.job import Phase
from phalanx.model.line import Bid
from phalanx.model.queue import Queue
from phalanx.model.shape import Amounts
from phalanx.model.tree import Charge, Tree


class Broken(AssertionError):
    """The book contradicts itself, or a decision broke a promise: a defect of ours."""


def check(cluster: Cluster) -> None:
    """Raises `Broken` with everything that is wrong."""
    wrong = [
        *cluster.breaches,
        *columns_add_up(cluster),
        *layout_is_true(cluster),
        *others_add_up(cluster),
        *noted_truly(cluster),
        *usage.untrue(cluster),
        *jobs_are_whole(cluster),
        *waiting_is_true(cluster),
        *crowds_are_true(cluster),
        *heads_are_true(cluster),
        *tree_adds_up(cluster),
    ]
    if wrong:
        raise Broken("\n".join(wrong))


def columns_add_up(cluster: Cluster) -> Iterator[str]:
    """allocatable is what the nodes say, and free that less what records and foreign pods hold, everywhere."""
    columns = cluster.columns
    said = [dict(node.allocatable) if node else {} for node in columns.nodes]
    charges = [0] * len(said)
    held: list[dict[str, int]] = [{} for _ in said]
    for name, asks in holdings(cluster):
        row = columns.row_of.get(name)
        if row is None:
            yield f"a pod is charged to {name}, which has no row"
            continue
        charges[row] += 1
        for resource, amount in asks:
            held[row][resource] = held[row].get(resource, 0) + amount
    if charges != columns.charges:
        yield f"pods per row are noted as {columns.charges}, there are {charges}"
    for row, amounts in enumerate(held):
        for resource, shared in columns.devices.shared(row).items():
            amounts[resource] = amounts.get(resource, 0) + shared
    for resource, column in columns.free.items():
        has = [each.get(resource, 0) for each in said]
        left = [amount - each.get(resource, 0) for amount, each in zip(has, held, strict=True)]
        if columns.allocatable[resource].tolist()[: len(has)] != has:
            yield f"{resource} allocatable is {columns.allocatable[resource]}, the nodes say {has}"
        if column.tolist() != left + [0] * (columns.capacity - len(left)):
            yield f"{resource} free is {column}, charges say {left} ({columns.names})"


def layout_is_true(cluster: Cluster) -> Iterator[str]:
    """What the book keeps of the last decision's layout becomes, brought up to date, what one made anew is."""
    columns, kept = cluster.columns, cluster.columns.layout
    if kept is None:
        return
    columns.layout = now = laid_out(columns, packed=kept.packed)
    anew = Layout(columns, packed=kept.packed)
    if now.rows.tolist() != anew.rows.tolist():
        yield f"nodes are laid out as {now.rows}, the order is {anew.rows}"
    for resource, column in anew.free.items():
        if now.free[resource].tolist() != column.tolist():
            yield f"{resource} free is laid out as {now.free[resource]}, it is {column}"


def holdings(cluster: Cluster) -> Iterator[tuple[str, Amounts]]:
    yield from cluster.foreign.values()
    for record in cluster.jobs.values():
        for slot, node in (*record.placements.items(), *record.promise.items()):
            yield node, record.gang.demands[slot.role].asks


def jobs_are_whole(cluster: Cluster) -> Iterator[str]:
    for job, record in cluster.jobs.items():
        if record.gang.roles != record.job.roles:
            yield f"{job} has other roles than its gang"
        if job != record.job.id or job not in cluster.jobs_of.get(record.job.queue, ()):
            yield f"{job} is not filed under its id and queue"
        if record.phase is Phase.QUEUED and (record.placements or record.open):
            yield f"{job} is queued and yet holds or wants nodes"
        if record.promise and record.phase not in {Phase.QUEUED, Phase.STOPPING}:
            yield f"{job} is {record.phase} and still promised room"
        if bool(record.promise) != (job in cluster.promised) or bool(record.leaving) != (job in cluster.leaving):
            yield f"{job} is noted as promised {job in cluster.promised} and leaving {job in cluster.leaving}"
        if record.leaving - record.placements.keys():
            yield f"{job} is to give up what it does not hold"
        if record.phase is not Phase.QUEUED and record.attempt < 1:
            yield f"{job} is {record.phase} after no start"
        if record.placements.keys() & record.open.keys():
            yield f"{job} has a slot that is both placed and open"
        yield from held_truly(cluster, record)


def others_add_up(cluster: Cluster) -> Iterator[str]:
    held, on = dict.fromkeys(cluster.others, 0), Counter[tuple[str, str]]()
    for node, asks in cluster.foreign.values():
        for resource, amount in asks:
            held[resource] = held.get(resource, 0) + amount
            on[node, resource] += amount
    if held != cluster.others:
        yield f"pods of others hold {held}, noted is {cluster.others}"
    if +on != +Counter({(node, name): has for node, each in cluster.others_on.items() for name, has in each.items()}):
        yield f"pods of others hold {dict(on)}, noted is {cluster.others_on}"


def held_truly(cluster: Cluster, record: Record) -> Iterator[str]:
    held = usage.holding(record)
    for resource, jobs in cluster.holders.held.items():
        if jobs.get(record.job.id, 0) != held.get(resource, 0):
            yield f"{record.job.id} holds {held} of {resource}, noted is {jobs.get(record.job.id, 0)}"


def tree_adds_up(cluster: Cluster) -> Iterator[str]:
    """Every queue's account is what building the tree anew and charging every record comes to."""
    tree, due_of = cluster.tree, {job: charge_of(cluster, record) for job, record in cluster.jobs.items()}
    if tree.stale or tree.pool_stale:
        yield "the queue tree is not up to date"
    for job, record in cluster.jobs.items():
        if due_of[job] != record.charge:
            yield f"{job} is charged {record.charge} to its queue, and due is {due_of[job]}"
        if list(record.placed) != counted(record.placements, len(record.job.roles)):
            yield f"{job} has {record.placed} pods placed per role, noted is {record.placements}"
    charged = shown(cluster, [due for due in due_of.values() if due is not None])
    if tree.branches.keys() != charged.keys():
        yield f"the tree has {sorted(tree.branches)}, the queues are {sorted(charged)}"
    for name in tree.branches.keys() & charged.keys():
        if (noted := tree.branches[name].account.shown()) != charged[name]:
            yield f"queue {name!r} is charged {noted}, the records say {charged[name]}"
    if cluster.entrants.lists != entrants(cluster).lists:
        yield f"submitted jobs are counted as {cluster.entrants.lists}, there are {entrants(cluster).lists}"
    pools = [{key: amount for key, amount in pool.items() if amount} for pool in (tree.pool, cluster.pool())]
    if pools[0] != pools[1]:
        yield f"the tree's pool is {pools[0]}, the nodes have {pools[1]}"


def shown(cluster: Cluster, charges: Sequence[Charge]) -> dict[str, tuple[object, ...]]:
    """Each branch's account, if these charges are all."""
    tree = tree_of(tuple(cluster.queues.values()), tuple(cluster.flavors))
    tree.clear()
    for charge in charges:
        tree.charge(charge, 1)
    return {name: branch.account.shown() for name, branch in tree.branches.items()}


@lru_cache(maxsize=4)
def tree_of(queues: tuple[Queue, ...], flavors: tuple[str, ...]) -> Tree:
    """Of these queues; whoever asks clears it."""
    tree = Tree()
    tree.build({queue.name: queue for queue in queues}, flavors)
    return tree


def waiting_is_true(cluster: Cluster) -> Iterator[str]:
    """Every bid is fresh, resting, in one line, or parked; and nothing else is."""
    waiting = cluster.waiting
    bids = set(waiting.fresh) | {bid for _, bid in waiting.resting}
    for key, line in waiting.lines.items():
        if not line or line.key != key:
            yield f"a line of {len(line)} stands under a wrong key or empty"
        if bids & line.bids():
            yield f"bids wait in two places: {sorted(bids & line.bids())}"
        bids |= line.bids()
    asked = {Bid(job) for job, record in cluster.jobs.items() if record.phase is Phase.QUEUED}
    asked |= {Bid(job, slot) for job, record in cluster.jobs.items() for slot in record.open}
    if strangers := bids - asked:
        yield f"what does not ask for room waits: {sorted(strangers)}"


def heads_are_true(cluster: Cluster) -> Iterator[str]:
    """Of every strict queue that is one arena, all lines are known in order."""
    tree, waiting = cluster.tree, cluster.waiting
    if dict(waiting.heads.orders) != tree.closed_in_order():
        yield f"heads are kept for {waiting.heads.orders}, the tree says {tree.closed_in_order()}"
    for name, by in waiting.heads.orders.items():
        firsts = {key: line.first() for key, line in waiting.lines.items() if tree.branch(key.queue).arena.name == name}
        true = sorted((order.rank(key, first, by), key) for key, first in firsts.items())
        if [key for _, key in waiting.heads.of(name)] != [key for _, key in true]:
            yield f"the heads of {name} are not its lines in order"


def crowds_are_true(cluster: Cluster) -> Iterator[str]:
    """Every line that sleeps in a crowd has its turn in its arena, by its first bid, and no other line has."""
    waiting = cluster.waiting
    crowded = {key for crowd in waiting.watches.crowds.values() for key in crowd}
    found = [(arena, gang, of) for arena, crowds in waiting.turns.of.items() for gang, of in crowds.items()]
    turns = [(arena, gang, *turn) for arena, gang, of in found for turn in of]
    if crowded != {key for *_, key in turns} or len(crowded) != len(turns):
        yield f"{len(crowded)} lines sleep in crowds, {len(turns)} have a turn"
    for arena, gang, place, key in turns:
        first = waiting.lines[key].first()
        if cluster.tree.branch(key.queue).arena.name != arena or key.gang is not gang:
            yield f"a line of {key.queue} has its turn in {arena}, or not in its crowd"
        if (place[1], place[3]) != (first.arrival_s, first.tie):
            yield f"a line of {key.queue} has its turn at {place}, its first is {first}"
    if any(of != sorted(of, key=lambda turn: turn[0]) for _, _, of in found):
        yield "turns are out of order"
    if strangers := waiting.watches.roused.keys() - waiting.watches.crowds.keys():
        yield f"crowds of nobody are roused: {len(strangers)}"
