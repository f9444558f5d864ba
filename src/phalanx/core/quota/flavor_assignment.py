"""The flavors on which a gang may start, or the limit that does not allow it (Kueue's flavor assignment).

`flavor_assignments` returns the assignments of flavors to the gang's roles, the best first. Quota allows an assignment,
or the assignment has the `QuotaShortfall` of the first limit that does not. `core.quota.fungibility` orders them. If a
gang does not fit with one assignment, the next one is tried, so a full flavor does not block it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import islice
from typing import NamedTuple

from phalanx.core.quota import partial, role_flavors
from phalanx.core.quota.fungibility import FlavorMode, Preferences, Rank
from phalanx.core.quota.ledger import EmptyLedger, QuotaLedger, QuotaShortfall, key_beyond_guarantee, shortfall
from phalanx.core.quota.partial import PartialAdmission
from phalanx.model.job import GangSize, Job, Placement
from phalanx.state.classes import Gang
from phalanx.state.cluster import Cluster
from phalanx.state.pending.request_class import Kind, RequestClassKey
from phalanx.state.queues.branch import Branch
from phalanx.state.queues.quota import Charge, gang_cost
from phalanx.state.queues.tree import QueueTree

TRIED = 8  # the largest number of choices of members to leave out that are tried with the same flavors


class FlavorAssignment(NamedTuple):
    """An assignment of flavors to the roles of a gang, and a choice of optional members to leave out.

    `gang`: the gang that is placed with it.
    `charge`: the charge of its queue.
    `borrows`: whether the charge exceeds the guarantee of the queue.
    `short`: the limit that does not allow it now; None: quota allows it.
    `besides`: other choices of members with the same flavors, if quota allows none of them. `gang` then has all
        members."""

    flavors: tuple[str, ...]
    gang: Gang
    charge: Charge
    borrows: bool = False
    short: QuotaShortfall | None = None
    besides: tuple[FlavorAssignment, ...] = ()


def never_allowed(tree: QueueTree, offer: FlavorAssignment) -> QuotaShortfall | None:
    """Return the shortfall that the offer would have if no job ran; None if it would have none."""
    return shortfall(EmptyLedger(tree), tree.branches[offer.charge.queue], offer.charge)


def flavor_assignments(
    cluster: Cluster, ledger: QuotaLedger, key: RequestClassKey, job: Job, given: tuple[str, ...] = ()
) -> list[FlavorAssignment]:
    """Return the assignments with which `job` may start, the best first; never empty. `given`: the flavors of a started
    job, which stay the same."""
    queue = cluster.queue_of(job)
    branch = cluster.tree.branches[queue]
    pods, cost, jobs = key.gang.minimums, key.gang.due(), int(key.kind == Kind.JOB)
    if jobs and branch.queue is not None and not branch.queue.gang:
        pods, cost = (0,) * len(pods), ()  # pods of such a job are charged one by one, when they are placed
    whole = Charge(queue, job.user, job.group, cost, jobs, job.id, job.preemptible)
    if branch.unbounded:
        return [FlavorAssignment((), key.gang, whole)]
    if not branch.flavors:
        found = flavor_assignment(ledger, branch, (), key.gang, whole)
        return with_partial_admission(cluster, ledger, branch, found) if jobs and key.gang.optional else [found]
    every = []
    ways = [given] if given else role_flavors.combinations(cluster.flavors, branch.flavors, key.gang)
    for flavors in ways:
        charge = whole._replace(cost=gang_cost(key.gang, pods, flavors, branch.flavors))
        gang = cluster.with_flavors(key.gang, flavors)
        every.append(flavor_assignment(ledger, branch, flavors, gang, charge))
    if jobs and key.gang.optional:
        every = [fewer for each in every for fewer in with_partial_admission(cluster, ledger, branch, each)]
    return every if given else by_preference(cluster, ledger, branch, key, job, every)


def with_partial_admission(
    cluster: Cluster, ledger: QuotaLedger, branch: Branch, whole: FlavorAssignment
) -> list[FlavorAssignment]:
    """Return assignments of the same flavors that leave out as few optional members as quota allows. If quota allows
    none of these choices, return the assignment of the smallest gang that can start."""
    if whole.short is None:
        return [whole]
    seen: dict[frozenset[int], FlavorAssignment] = {frozenset(): whole}

    def offered(way: PartialAdmission) -> FlavorAssignment:
        if way.roles not in seen:
            cost = gang_cost(whole.gang, way.pods, whole.flavors, branch.flavors)
            charge = whole.charge._replace(cost=cost)
            seen[way.roles] = flavor_assignment(ledger, branch, whole.flavors, whole.gang, charge)
        return seen[way.roles]

    found = {way.roles: way for way in partial.partial_admissions(whole.gang, lambda way: offered(way).short is None)}
    ways = [way for way in found.values() if offered(way).short is None] or list(found.values())
    first, *others = [
        offered(way)._replace(gang=partial.reduced_gang(cluster, whole.gang, way)) for way in islice(ways, TRIED)
    ]
    besides = tuple(each for roles, each in seen.items() if each.short is not None and roles != ways[0].roles)
    return [first._replace(besides=besides), *others]


def capped_gang(cluster: Cluster, ledger: QuotaLedger, offer: FlavorAssignment) -> Gang:
    """Return the assignment's gang with as many pods above the minimum as quota allows, role by role, one pod at a
    time."""
    gang = offer.gang
    if gang.rigid or (branch := ledger.tree.branches[offer.charge.queue]).unbounded:
        return gang
    pods = [role.minimum for role in gang.roles]
    for at, role in enumerate(gang.roles):
        low, high = role.minimum, max(role.minimum, role.count)
        while low < high:
            middle = (low + high + 1) // 2
            wanted = gang_cost(gang, [*pods[:at], middle, *pods[at + 1 :]], offer.flavors, branch.flavors)
            if shortfall(ledger, branch, offer.charge._replace(cost=wanted)):
                high = middle - 1
            else:
                low = middle
        pods[at] = low
    roles = tuple(replace(role, count=count) for role, count in zip(gang.roles, pods, strict=True))
    return cluster.interned.gang(roles, gang.groups, gang.closeness, gang.size)


def charge_for(offer: FlavorAssignment, placements: Sequence[Placement]) -> Charge:
    """Return the charge of the queue for the assignment with these placed pods."""
    minimums = offer.gang.minimums
    if len(minimums) == 1 and len(placements) == minimums[0]:
        return offer.charge
    pods = [0] * len(minimums)
    for placement in placements:
        pods[placement.role] += 1
    return charge_for_pods(offer, pods)


def charge_for_pods(offer: FlavorAssignment, pods: Sequence[int]) -> Charge:
    """Return the charge of the queue for the assignment with `pods[role]` pods of each role."""
    if tuple(pods) == offer.gang.minimums:
        return offer.charge
    return offer.charge._replace(cost=gang_cost(offer.gang, pods, offer.flavors))


def flavor_assignment(
    ledger: QuotaLedger, branch: Branch, flavors: tuple[str, ...], gang: Gang, charge: Charge
) -> FlavorAssignment:
    """Return the assignment of these flavors, with its shortfall if quota does not allow it."""
    short = shortfall(ledger, branch, charge)
    beyond = short is None and key_beyond_guarantee(branch, ledger.account(branch).total, charge.cost)
    return FlavorAssignment(flavors=flavors, gang=gang, charge=charge, borrows=bool(beyond), short=short)


def by_preference(
    cluster: Cluster, ledger: QuotaLedger, branch: Branch, key: RequestClassKey, job: Job, found: list[FlavorAssignment]
) -> list[FlavorAssignment]:
    """Return the assignments in the order of the queue's preference. For a job whose size is final at its start, the
    assignments that allow most of its pods come first, and the queue's preference decides between them."""
    if len(found) < 2:
        return found
    pods, sizes = key.gang.minimums, dict[tuple[str, ...], int]()
    if job.size is GangSize.FIXED_AT_START and not key.gang.rigid:
        capped = {each.flavors: counts_of(capped_gang(cluster, ledger, each)) for each in found if not each.short}
        sizes = {flavors: sum(counts) for flavors, counts in capped.items()}
        pods = max(capped.values(), key=sum, default=pods)
    preferences = Preferences(ledger, branch, cluster.flavors, key.gang, found[0].charge, pods)

    def rank(offer: FlavorAssignment) -> tuple[bool, int, Rank]:
        place = preferences.rank(offer.flavors, mode_of(offer))
        preempts = bool(sizes) and offer.short is not None and place[0] == 0
        return not preempts, -sizes.get(offer.flavors, 0), place

    return sorted(found, key=rank)


def counts_of(gang: Gang) -> tuple[int, ...]:
    """Return the number of pods of each role."""
    return tuple(role.count for role in gang.roles)


def mode_of(offer: FlavorAssignment) -> FlavorMode:
    """Return the mode of the assignment: within the guarantee, by borrowing, or short of quota."""
    if offer.short is not None:
        return FlavorMode.SHORT
    return FlavorMode.BORROWS if offer.borrows else FlavorMode.FITS
