"""Slurm's fair-share factor: users whose past usage is below their share get a higher priority.

An *association* is a user in an account, or an account, which contains further associations. Each association has a
number of shares, which counts relative to its siblings, and a decayed usage (billed units times seconds). The usage of
an account is the sum of the usage of its members. Two formulas compute a factor between 0 and 1 from shares and usage:

*Fair Tree* (https://slurm.schedmd.com/fair_tree.html). The level of an association is S/U: S is its part of the shares
of all siblings (itself included), and U is its part of the usage of all siblings. The level is infinite if U is 0, and
0 if S is 0. Users are ranked depth first: all users below an account come before all users below a sibling account with
a lower level. The factor of a user is rank / number of users, and the best user's rank is the number of users. Siblings
with equal levels are tied. Tied users have the same rank, and the next rank is lower by the number of tied users. The
members of tied accounts are ranked together, as if they were siblings. A user that is tied with accounts has the rank
of the best user in these accounts.

*Classic* (https://slurm.schedmd.com/classic_fair_share.html). The factor is F = 2^(-UE / S). S is the product of the
parts of the siblings' shares over all associations on the path from the root. UA is the association's part of all
usage. At the first level below the root, the effective usage UE is UA. At deeper levels, UE is UA + (UE of the parent -
UA) * part of the siblings' shares. If S is 0, F is 0.

A user with the value `PARENT` instead of a number of shares has the account's part of the shares and, in the classic
formula, the account's usage. In Fair Tree such a user comes before all siblings. An account with `PARENT` forms no
level: its members count as siblings of the account. Phalanx does not offer depth-oblivious shares
(PriorityFlags=DEPTH_OBLIVIOUS), because a test with a real Slurm showed a high factor for users whose usage was far
above their share.

The scheduler (`core.order.associations`) and Slurm's commands (`slurm.accounts.tree`) build trees and use both
formulas. Each formula walks the tree once, in a time of O(users log users), and does not recurse.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import groupby
from math import inf
from typing import NamedTuple, TypeAlias

Key: TypeAlias = tuple[str, str | None]  # the name of an account, and a user in it; None means the account itself
PARENT = -1.0  # the value of `shares` for Slurm's `FairShare=parent`
_ROOT_PART = 2.0**-32  # the NormShares that Slurm has for the root in Fair Tree; sshare prints it as 0.000000


class UserAssociation(NamedTuple):
    """A user in an account. `shares`: the number of shares, or `PARENT`. `usage`: the decayed usage, in billed units
    times seconds."""

    key: Key
    shares: float = 1.0
    usage: float = 0.0


class AccountAssociation(NamedTuple):
    """An account with its members, which are users and further accounts. `usage`: the sum of the members' usage.
    `users`: the number of users in the account and below it. The function `account_association` creates objects of this
    class."""

    key: Key
    shares: float
    members: tuple[Association, ...]
    usage: float
    users: int


Association: TypeAlias = UserAssociation | AccountAssociation


class AssociationShare(NamedTuple):
    """The fields that `sshare -l` shows of an association.

    `part`: NormShares. In Fair Tree, it is the part of the siblings' shares; in the classic formula, the part of all
        shares.
    `usage`: the effective usage.
    `level`: LevelFS; only set by Fair Tree.
    `factor`: the factor in the priority of jobs; for accounts it is only set by the classic formula. It is also
        FairShare, except for `PARENT` at the first level in the classic formula: Slurm's priority has the factor of the
        root, and `sshare` shows `halving(usage, part)`."""

    part: float
    usage: float
    level: float | None = None
    factor: float | None = None


def account_association(key: Key, shares: float, members: tuple[Association, ...]) -> AccountAssociation:
    """Return the account with the sum of its members' usage, and the number of its users."""
    usage = sum([member.usage for member in members])
    users = sum([member.users if isinstance(member, AccountAssociation) else 1 for member in members])
    return AccountAssociation(key, shares, members, usage, users)


def account_tree(
    accounts: Mapping[str, tuple[str, float]], users: Callable[[str], Iterable[UserAssociation]]
) -> AccountAssociation:
    """Return the root of a tree of accounts. Its name is "". An account without a path to the root is left out.

    `accounts`: the name of an account -> the name of its parent, and the account's shares.
    `users`: a function that returns the users of an account; they come before the accounts below this account."""
    children: dict[str, list[str]] = {}
    for name, (parent, _) in accounts.items():
        children.setdefault(parent, []).append(name)
    order = [""]
    # the loop appends the children of each account to `order`, so parents come before their children
    for name in order:
        order += children.get(name, ())
    built: dict[str, AccountAssociation] = {}
    for name in reversed(order):
        below = [built.pop(child) for child in children.get(name, ())]
        shares = accounts[name][1] if name else 1.0
        built[name] = account_association((name, None), shares, (*users(name), *below))
    return built[""]


def siblings(account: AccountAssociation) -> list[Association]:
    """Return the associations of the level below the account: its members, and the members of accounts with `PARENT`
    among them."""
    found: list[Association] = []
    waiting = [*reversed(account.members)]
    while waiting:
        member = waiting.pop()
        found.append(member)
        if member.shares == PARENT and isinstance(member, AccountAssociation):
            waiting += reversed(member.members)
    return found


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
    """Return the shares and the level of every association, without the factors."""
    found = {root.key: AssociationShare(_ROOT_PART, 1.0)}
    waiting = [root]
    while waiting:
        account = waiting.pop()
        members, used = siblings(account), account.usage
        shares = total_shares(members)
        for member in members:
            usage, own = member.usage / used if used else 0.0, max(0.0, member.shares)
            if member.shares == PARENT:
                found[member.key] = AssociationShare(found[account.key].part, usage, inf)
                continue
            # With only one division, levels that are equal in theory are also equal as floats.
            level = 0.0 if not own else inf if not member.usage else own * used / (member.usage * shares)
            found[member.key] = AssociationShare(own / shares if shares else 0.0, usage, level)
            if isinstance(member, AccountAssociation):
                waiting.append(member)
    return found


def ranked(root: AccountAssociation, found: Mapping[Key, AssociationShare]) -> Iterator[list[Key]]:
    """Yield groups of users with equal rank, the group with the best rank first."""
    stack = [tied_siblings([root], found)]
    while stack:
        tied: list[Key] = []
        while group := next(stack[-1], None):
            tied += [member.key for member in group if isinstance(member, UserAssociation)]
            accounts = [member for member in group if isinstance(member, AccountAssociation)]
            if not accounts:
                break
            stack.append(tied_siblings(accounts, found))
        else:
            stack.pop()
        if tied:
            yield tied


def tied_siblings(
    accounts: Iterable[AccountAssociation], found: Mapping[Key, AssociationShare]
) -> Iterator[list[Association]]:
    """Yield groups of associations with the same level, the highest level first. They are the associations of the
    levels below the accounts, without accounts that have no users or `PARENT`."""

    def level(member: Association) -> float:
        return found[member.key].level or 0.0

    present = [
        member
        for account in accounts
        for member in siblings(account)
        if isinstance(member, UserAssociation) or (member.users and member.shares != PARENT)
    ]
    present.sort(key=level, reverse=True)
    return (list(group) for _, group in groupby(present, level))


def classic_fair_share(root: AccountAssociation) -> dict[Key, AssociationShare]:
    """Return the shares of every association by Slurm's classic formula."""
    found = {root.key: AssociationShare(1.0, 1.0, factor=halving(1.0, 1.0))}
    waiting = [root]
    while waiting:
        account = waiting.pop()
        above, members = found[account.key], siblings(account)
        shares = total_shares(members)
        for member in members:
            usage = ratio(member.usage, root.usage)
            if member.shares == PARENT:
                found[member.key] = above if account is not root else above._replace(usage=usage)
                continue
            own = ratio(max(0.0, member.shares), shares)
            if account is not root:
                usage += (above.usage - usage) * own
            part = above.part * own
            found[member.key] = AssociationShare(part, usage, factor=halving(usage, part))
            if isinstance(member, AccountAssociation):
                waiting.append(member)
    return found


def halving(usage: float, part: float) -> float:
    """Return 2^(-usage / part), which is one half if the usage is equal to the part; 0 if the part is 0."""
    return 2.0 ** -(usage / part) if part else 0.0


def total_shares(members: Iterable[Association]) -> float:
    """Return the sum of the members' shares."""
    return sum(max(0.0, member.shares) for member in members)


def ratio(some: float, whole: float) -> float:
    """Return `some` / `whole`; 0 if `whole` is 0."""
    return some / whole if whole else 0.0
