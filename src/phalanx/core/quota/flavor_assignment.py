"""Find the flavors on which a gang may start, or the limit that prevents its start. A flavor is a kind of nodes that
has its own quota. The module implements Kueue's flavor assignment.

`flavor_assignments` returns assignments of flavors to the gang's roles, the best first. If quota does not allow an
assignment, the assignment has a `QuotaShortfall` that names the first exceeded limit. If the nodes have no capacity for
the gang with one assignment, the cycle tries the next. So a gang can start although the nodes of its preferred flavor
are full.

*Suitable flavors.* This module also finds the flavors that the roles of a gang may get.

A resource group (Kueue) is a list of resources with the flavors that have quota for them. If a role requests a resource
of a group, it gets one flavor from this group. The pods of the role run on nodes that belong to all flavors of the
role. A flavor suits a role if the role's pods tolerate the flavor's taints, and if the flavor's labels match the pods'
node selector and required node affinity. As in Kueue, labels that the flavor does not have are ignored here; placement
checks them.

*Order of preference.* Finally, this module sorts the assignments in the order in which the queue prefers them (Kueue's
flavorFungibility).

The flavor is chosen separately for each resource group of each role, in the order of the roles. For this choice, only
resources of the group count: the requests of the role itself, and of earlier roles with the same flavor. So if a job
must borrow GPUs, its CPUs may still come from a flavor that is within the guarantee.

For each resource group, the flavors are examined in the queue's order. The search stops at the first flavor in which
the role fits within the guarantee. If the queue prefers to borrow before it tries the next flavor, the search also
stops at a flavor in which the role fits by borrowing. The flavor at which the search stops is a *leading* flavor. If
the queue prefers to preempt before it tries the next flavor, earlier flavors without free quota are leading flavors,
too. If preemption is not possible in one leading flavor, the next leading flavor is tried. Assignments that have only
leading flavors come before all other assignments. The others are used if the nodes of leading flavors are full. Of
these, assignments within the guarantee come first. Assignments that borrow, and assignments that are short of quota,
follow in the order that the queue prefers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from enum import IntEnum
from itertools import islice, product
from typing import NamedTuple, TypeAlias

from phalanx.core.quota import partial
from phalanx.core.quota.ledger import EmptyLedger, QuotaLedger, QuotaShortfall, key_beyond_guarantee, shortfall
from phalanx.core.quota.partial import PartialAdmission
from phalanx.model.job import GangSize, Job, Placement
from phalanx.model.node import Flavor, joined_name, parts_of, taint_text
from phalanx.model.pod import Amount, Operator, Shape
from phalanx.model.queue import FlavorFungibility
from phalanx.state.classes import Demand, Gang
from phalanx.state.cluster import Cluster, JobRecord
from phalanx.state.nodes.pod_index import requirement_holds
from phalanx.state.pending.request_class import Kind, RequestClassKey
from phalanx.state.queues.branch import Branch
from phalanx.state.queues.quota import Charge, Key, gang_cost
from phalanx.state.queues.rules import ResourceGroup
from phalanx.state.queues.tree import QueueTree

COMBINATIONS = 64  # the maximum number of combinations of flavors that are tried for a gang
COMPARED = frozenset(Operator) - {Operator.GT, Operator.LT}


def combinations(
    known: Mapping[str, Flavor], groups: tuple[ResourceGroup, ...], gang: Gang
) -> Iterator[tuple[str, ...]]:
    """Yield the combinations of flavors for the roles of a gang, in the queue's order. At most `COMBINATIONS` are
    yielded. A combination is a tuple with one string for each role: the names of the role's flavors, joined by `+`."""
    return islice(product(*(choices(known, groups, demand) for demand in gang.demands)), COMBINATIONS)


def choices(known: Mapping[str, Flavor], groups: tuple[ResourceGroup, ...], demand: Demand) -> list[str]:
    """Return the choices of flavors for a role, in the queue's order. Each choice is a string with one flavor name for
    each resource group, joined by `+`."""
    asked = [suitable_flavors(known, group, demand) for group in groups_asked(groups, demand)]
    return [joined_name(each) for each in product(*asked)]


def suitable_flavors(known: Mapping[str, Flavor], group: ResourceGroup, demand: Demand) -> tuple[str, ...]:
    """Return the flavors of the group that suit the role, in the queue's order. If no flavor suits the role, return all
    flavors of the group. It does not matter that they do not suit, because a job with such a role is never eligible."""
    suit = tuple(name for name in group.flavors if not why_unsuitable(known.get(name), demand.shape))
    return suit or group.flavors


def groups_asked(groups: tuple[ResourceGroup, ...], demand: Demand) -> list[ResourceGroup]:
    """Return the resource groups that have a resource which the role requests."""
    return [group for group in groups if any(group.covers(resource) for resource, _ in demand.costs)]


def why_unsuitable(flavor: Flavor | None, shape: Shape) -> str:
    """Return why pods of this shape may not get the flavor; an empty string if they may get it. The text is the end of
    a sentence that begins with "flavor x"."""
    if flavor is None:
        return ""
    if taint := flavor.untolerated(shape):
        return f"has the taint {taint_text(taint)}, which they do not tolerate"
    labels = dict(flavor.labels)
    for key, value in shape.selector:
        if key in labels and labels[key] != value:
            return f"is not of their selector {key}={value}"
    terms = [[each for each in term if each.key in labels and each.operator in COMPARED] for term in shape.affinity]
    if terms and not any(all(requirement_holds(labels.get(each.key), each) for each in term) for term in terms):
        return "is not of their required node affinity"
    return ""


Rank: TypeAlias = tuple[int, ...]


class FlavorMode(IntEnum):
    """The result of the quota check for a charge to a flavor: the charge fits within the guarantee (FITS), it fits only
    by borrowing (BORROWS), or quota is short (SHORT)."""

    FITS = 0  # within the guarantee
    BORROWS = 1
    SHORT = 2


class FlavorPreference(NamedTuple):
    """The order in which one role prefers the flavors of one resource group. `places`: flavor -> its index in the order
    of preference. `leading`: the number of *leading* flavors (see the module docstring); they are at the beginning of
    the order."""

    places: Mapping[str, int]
    leading: int


class Preferences:
    """The order in which each role of a gang prefers the flavors. If a role requests resources of several resource
    groups, it has one order for each of these groups.

    `pods`: for each role, the number of pods whose cost is compared with the free quota of each flavor."""

    def __init__(
        self,
        ledger: QuotaLedger,
        branch: Branch,
        known: Mapping[str, Flavor],
        gang: Gang,
        charge: Charge,
        pods: Sequence[int],
    ) -> None:
        assert branch.queue is not None  # the root of the queue tree has no flavors, so this is not the root
        self.wish = branch.queue.fungibility
        self.roles: list[list[FlavorPreference]] = []
        used: dict[Key, Amount] = {}
        for demand, count in zip(gang.demands, pods, strict=True):
            self.roles.append([])
            for group in groups_asked(branch.rules.flavors, demand):
                asked = [(resource, amount * count) for resource, amount in demand.costs if group.covers(resource)]
                flavors = suitable_flavors(known, group, demand)
                costs = [
                    tuple(((name, resource), used.get((name, resource), 0) + amount) for resource, amount in asked)
                    for name in flavors
                ]
                charges = [charge._replace(cost=cost, jobs=0) for cost in costs]
                modes = [flavor_mode(ledger, branch, each) for each in charges]
                order, leading = preferred_order(modes, self.wish)
                self.roles[-1].append(FlavorPreference({flavors[at]: place for place, at in enumerate(order)}, leading))
                best = order[leading - 1]  # the flavor at which the search stopped
                used.update(costs[best])

    def rank(self, flavors: Sequence[str], mode: FlavorMode) -> Rank:
        """Return the rank of the assignment; assignments with low ranks are tried first. `flavors`: for each role, its
        flavors, joined by `+`. `mode`: the mode of the whole assignment."""
        places = [
            (each.places[name], each.leading)
            for preferences, joined in zip(self.roles, flavors, strict=True)
            for each, name in zip(preferences, parts_of(joined), strict=True)
        ]
        leads = all(place < leading for place, leading in places)
        return 0 if leads else 1 + mode_class(mode, self.wish), *(place for place, _ in places)


def flavor_mode(ledger: QuotaLedger, branch: Branch, charge: Charge) -> FlavorMode:
    """Return the mode of the charge: within the guarantee, by borrowing, or short of quota."""
    if shortfall(ledger, branch, charge) is not None:
        return FlavorMode.SHORT
    borrows = key_beyond_guarantee(branch, ledger.account(branch).total, charge.cost) is not None
    return FlavorMode.BORROWS if borrows else FlavorMode.FITS


def preferred_order(modes: Sequence[FlavorMode], wish: FlavorFungibility) -> tuple[list[int], int]:
    """Return two values: the indexes of the flavors in the order of preference, and the number of leading
    flavors. `modes`: the mode of each flavor."""
    leading = list[int]()
    for at, mode in enumerate(modes):
        stops = mode is FlavorMode.FITS or (mode is FlavorMode.BORROWS and wish.borrow_before_next)
        if stops or (mode is FlavorMode.SHORT and wish.preempt_before_next):
            leading.append(at)
        if stops:
            break
    others = [at for at in range(len(modes)) if at not in leading]
    others.sort(key=lambda at: mode_class(modes[at], wish))
    stopped = bool(leading) and modes[leading[-1]] is not FlavorMode.SHORT
    return leading + others, len(leading) + (not stopped and bool(others))


def mode_class(mode: FlavorMode, wish: FlavorFungibility) -> int:
    """Return the rank of a flavor with this mode; the queue prefers low ranks. The rank is 0 if the job fits within the
    guarantee. The modes for borrowing and for preemption have the ranks 1 and 2; `wish` states which of them is
    preferred."""
    if mode is FlavorMode.FITS:
        return 0
    return 1 if (mode is FlavorMode.SHORT) == wish.prefer_preemption else 2


TRIED = 8  # for one combination of flavors: the maximum number of choices of members to leave out


class FlavorAssignment(NamedTuple):
    """An assignment of flavors to the roles of a gang. If quota is short, it may leave out optional members of the
    gang.

    `gang`: the gang that is placed if this assignment is chosen.
    `charge`: the amounts that the queue is charged.
    `borrows`: whether the charge exceeds the guarantee of the queue.
    `short`: the limit that does not allow the charge now; None if quota allows it.
    `besides`: assignments of the same flavors that leave out other members, but are not allowed by quota. They are only
        used to explain why the job waits."""

    flavors: tuple[str, ...]
    gang: Gang
    charge: Charge
    borrows: bool = False
    short: QuotaShortfall | None = None
    besides: tuple[FlavorAssignment, ...] = ()


def never_allowed(tree: QueueTree, offer: FlavorAssignment) -> QuotaShortfall | None:
    """Return the limit or quota that the assignment would exceed even if no job ran; None if it would exceed none."""
    return shortfall(EmptyLedger(tree), tree.branches[offer.charge.queue], offer.charge)


def flavor_assignments(
    cluster: Cluster, ledger: QuotaLedger, key: RequestClassKey, record: JobRecord, given: tuple[str, ...] = ()
) -> list[FlavorAssignment]:
    """Return the assignments with which the job may start, the best first. The list is never empty. `given`: the
    flavors of a job that has already started (it keeps them); empty for other jobs."""
    job, branch = record.job, cluster.tree.branches[record.queue]
    pods, cost, jobs = key.gang.minimums, key.gang.due, int(key.kind == Kind.JOB)
    if jobs and not branch.rules.starts_whole:
        pods, cost = (0,) * len(pods), ()  # the job starts pod by pod, and each pod is charged when it is placed
    whole = Charge(record.queue, job.user, job.group, cost, jobs, job.id, job.preemptible)
    if branch.unbounded:
        return [FlavorAssignment((), key.gang, whole)]
    if not branch.rules.flavors:
        found = flavor_assignment(ledger, branch, (), key.gang, whole)
        return with_partial_admission(cluster, ledger, branch, found) if jobs and key.gang.optional else [found]
    every = []
    ways = [given] if given else combinations(cluster.flavors, branch.rules.flavors, key.gang)
    for flavors in ways:
        charge = whole._replace(cost=gang_cost(key.gang, pods, flavors, branch.rules.flavors))
        gang = cluster.with_flavors(key.gang, flavors)
        every.append(flavor_assignment(ledger, branch, flavors, gang, charge))
    if jobs and key.gang.optional:
        every = [fewer for each in every for fewer in with_partial_admission(cluster, ledger, branch, each)]
    return every if given else by_preference(cluster, ledger, branch, key, job, every)


def with_partial_admission(
    cluster: Cluster, ledger: QuotaLedger, branch: Branch, whole: FlavorAssignment
) -> list[FlavorAssignment]:
    """Return assignments of the same flavors that leave out as few optional members as quota requires. If quota does
    not even allow the smallest gang with which the job could start, return the assignment for this smallest gang."""
    if whole.short is None:
        return [whole]
    seen: dict[frozenset[int], FlavorAssignment] = {frozenset(): whole}

    def offered(way: PartialAdmission) -> FlavorAssignment:
        if way.roles not in seen:
            cost = gang_cost(whole.gang, way.pods, whole.flavors, branch.rules.flavors)
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
    """Return the assignment's gang with as many pods above the minimum as quota allows. Roles that come earlier in the
    gang get their further pods first."""
    gang = offer.gang
    if gang.rigid or (branch := ledger.tree.branches[offer.charge.queue]).unbounded:
        return gang
    pods = [role.minimum for role in gang.roles]
    for at, role in enumerate(gang.roles):
        low, high = role.minimum, max(role.minimum, role.count)
        while low < high:
            middle = (low + high + 1) // 2
            wanted = gang_cost(gang, [*pods[:at], middle, *pods[at + 1 :]], offer.flavors, branch.rules.flavors)
            if shortfall(ledger, branch, offer.charge._replace(cost=wanted)):
                high = middle - 1
            else:
                low = middle
        pods[at] = low
    roles = tuple(replace(role, count=count) for role, count in zip(gang.roles, pods, strict=True))
    return cluster.interned.gang(roles, gang.groups, gang.closeness, gang.size)


def charge_for(offer: FlavorAssignment, placements: Sequence[Placement]) -> Charge:
    """Return the charge of the queue for the pods of the assignment that have `placements`."""
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
    """Return the assignment of `flavors` to the gang's roles. If quota does not allow the charge, the assignment has a
    shortfall."""
    short = shortfall(ledger, branch, charge)
    beyond = short is None and key_beyond_guarantee(branch, ledger.account(branch).total, charge.cost)
    return FlavorAssignment(flavors=flavors, gang=gang, charge=charge, borrows=bool(beyond), short=short)


def by_preference(
    cluster: Cluster, ledger: QuotaLedger, branch: Branch, key: RequestClassKey, job: Job, found: list[FlavorAssignment]
) -> list[FlavorAssignment]:
    """Return the assignments in the order of the queue's preference. Some jobs cannot change their size after the
    start. For these, the assignments with which the largest number of pods can start come first, and the queue's
    preference only decides between assignments with equally many pods."""
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
