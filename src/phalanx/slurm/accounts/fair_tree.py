"""Slurm's Fair Tree. It ranks users by their usage relative to their shares, level by level of the account tree.

For each association, S is the fraction of its shares in the shares of all its siblings, and U is the fraction of its
usage in the usage of all siblings. LevelFS is S / U; it is infinite without usage, and 0 without shares. The tree is
traversed from the root, siblings in descending order of LevelFS. Users are ranked in this order, and FairShare is the
rank divided by the number of users. Sibling users with equal LevelFS share a rank. Sibling accounts with equal LevelFS
are traversed as one account. If the LevelFS of a user equals that of a sibling account, the user gets the rank of the
account's best user. An account with FairShare=parent forms no level: its users and accounts count as siblings of the
account.

By the classic formula (`PriorityFlags=NO_FAIR_TREE`), FairShare is 2^(-UE / S), for accounts as well. S is the product
of the fractions of shares among siblings, from the root down to the association. UA is the association's fraction of
all usage. UE is UA at the first level. Below it, UE is UA + (UE of the parent - UA) * the fraction of shares among
siblings. A user with FairShare=parent has the S and UE of the parent.

Sources: https://slurm.schedmd.com/fair_tree.html, https://slurm.schedmd.com/classic_fair_share.html; compared with the
output of a real Slurm 22.05 (tests/core/order/slurm).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from math import inf

PARENT = -1  # FairShare=parent: a user has the shares of the account; an account forms no level


@dataclass(slots=True, kw_only=True)
class FairTreeNode:
    """An association in the tree: an account or, if `user` is True, a user of an account. `usage`: the usage of the
    association and of all associations below it, in billed units times seconds. `below`: the associations below it."""

    name: str
    user: bool = False
    shares: int = 1
    usage: float = 0.0
    below: list[FairTreeNode] = field(default_factory=list)
    norm_shares: float = 0.0
    effective_usage: float = 0.0
    level: float = 0.0
    fair_share: float = 0.0


def compute(root: FairTreeNode) -> None:
    """Compute the fair shares of all associations below `root` from their shares and usage, by Fair Tree."""
    _sum(root)
    _levels(root)
    root.effective_usage = 1.0
    users = sum(node.user for node in walk(root))
    if users:
        _rank([root], users, users)


def compute_classic(root: FairTreeNode) -> None:
    """Compute the fair shares of all associations below `root` from their shares and usage, by the classic formula."""
    total = _sum(root)
    root.norm_shares = root.effective_usage = 1.0
    root.fair_share = 0.5
    _classic_below(root, total, first=True)


def _classic_below(node: FairTreeNode, total: float, *, first: bool) -> None:
    siblings, aside = _level(node)
    shares = sum(each.shares for each in siblings if each.shares != PARENT)
    for each in [*siblings, *aside]:
        part = 1.0 if each.shares == PARENT else each.shares / shares if shares else 0.0
        own = each.usage / total if total else 0.0
        each.norm_shares = node.norm_shares * part
        each.effective_usage = own if first else own + (node.effective_usage - own) * part
        each.fair_share = 2.0 ** -(each.effective_usage / each.norm_shares) if each.norm_shares else 0.0
    for each in siblings:
        _classic_below(each, total, first=False)


def walk(node: FairTreeNode) -> Iterator[FairTreeNode]:
    yield node
    for each in node.below:
        yield from walk(each)


def _sum(node: FairTreeNode) -> float:
    if not node.user:
        node.usage = sum(_sum(each) for each in node.below)
    return node.usage


def _level(node: FairTreeNode) -> tuple[list[FairTreeNode], list[FairTreeNode]]:
    """Return the siblings of the level below an account, and the accounts with FairShare=parent, which form no
    level."""
    siblings, aside = list[FairTreeNode](), list[FairTreeNode]()
    for each in node.below:
        if each.shares == PARENT and not each.user:
            further, others = _level(each)
            siblings += further
            aside += [each, *others]
        else:
            siblings.append(each)
    return siblings, aside


def _levels(node: FairTreeNode) -> None:
    siblings, aside = _level(node)
    shares = sum(each.shares for each in siblings if each.shares != PARENT)
    for each in [*siblings, *aside]:
        if each.shares == PARENT:
            each.level, each.norm_shares = inf, node.norm_shares
        else:
            each.norm_shares = each.shares / shares if shares else 0.0
            each.level = 0.0
            if each.norm_shares:  # the scheduler computes this with a single division as well, so both round equally
                used = each.usage if node.usage else 0.0
                each.level = each.shares * node.usage / (used * shares) if used else inf
        each.effective_usage = each.usage / node.usage if node.usage else 0.0
    for each in siblings:
        _levels(each)


def _rank(parents: Sequence[FairTreeNode], rank: int, users: int, tied: Sequence[FairTreeNode] = ()) -> int:
    """Rank all users below the accounts `parents`, which have equal LevelFS and count as one account. Return the next
    rank. `rank`: the first rank to give. `users`: the number of all users. `tied`: sibling users of the accounts with
    the same LevelFS; they get the rank of the best user below the accounts."""
    siblings = [each for parent in parents for each in _level(parent)[0] if any(node.user for node in walk(each))]
    siblings.sort(key=_level_of, reverse=True)
    for _, group in groupby(siblings, _level_of):
        members = list(group)
        tied = [*tied, *(node for node in members if node.user)]
        if accounts := [node for node in members if not node.user]:
            rank = _rank(accounts, rank, users, tied)
        else:
            for node in tied:
                node.fair_share = rank / users
            rank -= len(tied)
        tied = ()
    return rank


def _level_of(node: FairTreeNode) -> float:
    return node.level
