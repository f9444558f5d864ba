"""Slurm's fair-share factor: users who have used less than their share of past usage get a higher priority.

An *association* is a user in an account, or an account, which holds others. Each has shares among its siblings and a
usage (billed units times seconds, decayed; an account's is the sum of what is below it). Two formulas make of them a
factor between 0 and 1:

*Fair Tree* (https://slurm.schedmd.com/fair_tree.html). An association's level is S/U, its part of the siblings' shares
over its part of the siblings' usage: infinite without usage, 0 without shares. Users are ranked depth first, children
of an account with a higher level before all of one with a lower; the factor is rank / number of users, and the highest
rank is that number. Associations that tie share a rank and the next rank is lower by how many share it: tied users
have the same, the members of tied accounts are merged and ranked as siblings, and a user that ties with accounts
has the rank of their best user.

*Classic* (https://slurm.schedmd.com/classic_fair_share.html). F = 2^(-UE / S): S multiplies the parts of the shares
from the root down; UE is UA, the part of all usage, at the first level, and below it UA + (UE of the parent - UA) *
part of the siblings' shares. Without shares F is 0.

A user whose shares are `PARENT` stands in for the account: its part and, in the classic formula, its usage are the
account's; in Fair Tree it comes before all siblings. Depth-oblivious shares (PriorityFlags=DEPTH_OBLIVIOUS) are not
offered: measured on a real Slurm they give a high factor to users far over their part.

Both walk the tree once: O(users log users).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby
from math import inf
from typing import NamedTuple, TypeAlias

from phalanx.model.policy import FairShareFormula, Policy
from phalanx.model.queue import PARENT, Queue
from phalanx.state.cluster import Cluster
from phalanx.state.usage import DecayedUsage

Key: TypeAlias = tuple[str, str | None]  # an account's name, and the user in it; None: the account itself


class UserAssociation(NamedTuple):
    """A user in an account. `usage` is in billed units times seconds; `shares` may be `PARENT`."""

    key: Key
    shares: float = 1.0
    usage: float = 0.0


class AccountAssociation(NamedTuple):
    """An account: its users and further accounts. `usage`: the sum of its members' usage. `users`: the number of users
    below it. It is made by `account_association`."""

    key: Key
    shares: float
    members: tuple[UserAssociation | AccountAssociation, ...]
    usage: float
    users: int


def account_association(
    key: Key, shares: float, members: tuple[UserAssociation | AccountAssociation, ...]
) -> AccountAssociation:
    """Return the account with the sum of its members' usage, and the number of its users."""
    usage = sum([member.usage for member in members])
    users = sum([member.users if isinstance(member, AccountAssociation) else 1 for member in members])
    return AccountAssociation(key, shares, members, usage, users)


class AssociationShare(NamedTuple):
    """The fields that `sshare -l` shows of an association.

    `part`: NormShares, among the siblings in Fair Tree, of everything in the classic formula.
    `usage`: the effective usage.
    `level`: LevelFS, in Fair Tree only.
    `factor`: FairShare, which accounts have in the classic formula only."""

    part: float
    usage: float
    level: float | None = None
    factor: float | None = None


def association_shares(root: AccountAssociation, formula: FairShareFormula) -> dict[Key, AssociationShare]:
    """Return the shares of every association, by the formula."""
    match formula:
        case FairShareFormula.FAIR_TREE:
            return rank_fair_tree(root)
        case FairShareFormula.CLASSIC:
            return classic_fair_share(root)


def rank_fair_tree(root: AccountAssociation) -> dict[Key, AssociationShare]:
    """Return the shares of every association by Slurm's Fair Tree."""
    found = levels(root)
    rank = root.users
    for tied in ranked(root, found):
        for key in tied:
            part, usage, level, _ = found[key]
            found[key] = AssociationShare(part, usage, level, rank / root.users)
        rank -= len(tied)
    return found


def levels(root: AccountAssociation) -> dict[Key, AssociationShare]:
    """Return the shares of every association without the factors."""
    found = {root.key: AssociationShare(1.0, 1.0)}
    waiting = [root]
    while waiting:
        account = waiting.pop()
        shares, used = total_shares(account), account.usage
        for member in account.members:
            usage, own = member.usage / used if used else 0.0, max(0.0, member.shares)
            if member.shares == PARENT:
                found[member.key] = AssociationShare(found[account.key].part, usage, inf)
                continue
            # One division, so that equal levels are also equal as floats.
            level = 0.0 if not own else inf if not member.usage else own * used / (member.usage * shares)
            found[member.key] = AssociationShare(own / shares if shares else 0.0, usage, level)
            if isinstance(member, AccountAssociation):
                waiting.append(member)
    return found


def ranked(root: AccountAssociation, found: Mapping[Key, AssociationShare]) -> Iterator[list[Key]]:
    """Yield groups of users with equal rank, the best first."""
    stack = [tied_siblings(root.members, found)]
    while stack:
        tied: list[Key] = []
        while group := next(stack[-1], None):
            tied += [member.key for member in group if isinstance(member, UserAssociation)]
            merged = [below for member in group if isinstance(member, AccountAssociation) for below in member.members]
            if not merged:
                break
            stack.append(tied_siblings(merged, found))
        else:
            stack.pop()
        if tied:
            yield tied


def tied_siblings(
    siblings: Iterable[UserAssociation | AccountAssociation], found: Mapping[Key, AssociationShare]
) -> Iterator[list[UserAssociation | AccountAssociation]]:
    """Yield groups of siblings with the same level, the highest level first. Accounts without users are left out."""

    def level(member: UserAssociation | AccountAssociation) -> float:
        return found[member.key].level or 0.0

    present = [member for member in siblings if isinstance(member, UserAssociation) or member.users]
    present.sort(key=level, reverse=True)
    return (list(group) for _, group in groupby(present, level))


def classic_fair_share(root: AccountAssociation) -> dict[Key, AssociationShare]:
    """Return the shares of every association by Slurm's classic formula."""
    found = {root.key: AssociationShare(1.0, 1.0, factor=halving(1.0, 1.0))}
    waiting = [root]
    while waiting:
        account = waiting.pop()
        above, shares = found[account.key], total_shares(account)
        for member in account.members:
            if member.shares == PARENT:
                found[member.key] = above
                continue
            siblings = ratio(max(0.0, member.shares), shares)
            part, usage = above.part * siblings, ratio(member.usage, root.usage)
            if account is not root:
                usage += (above.usage - usage) * siblings
            found[member.key] = AssociationShare(part, usage, factor=halving(usage, part))
            if isinstance(member, AccountAssociation):
                waiting.append(member)
    return found


def halving(usage: float, part: float) -> float:
    """Return 2^(-usage / part): one half for a user who has used exactly the part."""
    return 2.0 ** -(usage / part) if part else 0.0


def total_shares(account: AccountAssociation) -> float:
    """Return the sum of the members' shares."""
    return sum(max(0.0, member.shares) for member in account.members)


def ratio(some: float, whole: float) -> float:
    """Return `some` / `whole`; 0 if `whole` is 0."""
    return some / whole if whole else 0.0


ROOT = ("", None)  # no queue has an empty name


def fair_shares(cluster: Cluster, policy: Policy, now_s: float) -> dict[Key, AssociationShare]:
    """Return the shares of every user and queue, by the policy's formula."""
    return association_shares(associations(cluster.queues, cluster.usage, policy, now_s), policy.fair_share)


def associations(queues: Mapping[str, Queue], usage: DecayedUsage, policy: Policy, now_s: float) -> AccountAssociation:
    """Return the queue tree as a tree of accounts, with the users that have shares or usage in each queue. A queue
    without a path to the root, or whose parents form a cycle, is left out."""
    children: dict[str, list[str]] = {}
    for queue in queues.values():
        children.setdefault(queue.parent, []).append(queue.name)
    order = [""]
    for name in order:  # the loop appends children to the list that it reads, so parents come first
        order += children.get(name, ())
    built: dict[str, AccountAssociation] = {}
    for name in reversed(order):
        below = [built.pop(child) for child in children.get(name, ())]
        shares = queues[name].weight if name else 1.0
        users = user_associations(queues[name], usage, policy, now_s) if name else ()
        built[name] = account_association((name, None), shares, (*users, *below))
    return built[""]


def user_associations(queue: Queue, usage: DecayedUsage, policy: Policy, now_s: float) -> Iterator[UserAssociation]:
    """Yield the users with shares or usage in the queue, with their decayed usage."""
    shares = dict(queue.accounts)
    used = {user: usage.at(meter, now_s) for user, meter in usage.associations.get(queue.name, {}).items()}
    if queue.name == policy.default_queue:
        for user, meter in usage.associations.get("", {}).items():
            used[user] = used.get(user, 0.0) + usage.at(meter, now_s)
    for user in sorted({**shares, **used}):
        yield UserAssociation((queue.name, user), shares.get(user, 1.0), used.get(user, 0.0))
