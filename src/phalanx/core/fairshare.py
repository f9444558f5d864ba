"""Slurm's fair-share factor: who has used less than their part of the past goes first.

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
from dataclasses import dataclass, field
from itertools import groupby
from math import inf
from typing import NamedTuple, TypeAlias

from phalanx.model.policy import FairShareFormula
from phalanx.model.queue import PARENT

Key: TypeAlias = tuple[str, str | None]  # an account's name, and the user in it; None: the account itself


@dataclass(frozen=True, slots=True, kw_only=True)
class User:
    """A user in an account. `usage` in billed units times seconds; `shares` may be `PARENT`."""

    key: Key
    shares: float = 1.0
    usage: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    """Users and further accounts."""

    key: Key
    shares: float = 1.0
    members: tuple[User | Account, ...] = ()
    usage: float = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "usage", sum(member.usage for member in self.members))


class Standing(NamedTuple):
    """What `sshare -l` shows of an association. `part`: of the shares (NormShares: among the siblings in Fair Tree, of
    everything in the classic formula); `usage`: the effective usage; `level`: LevelFS, in Fair Tree only; `factor`:
    FairShare, which accounts have in the classic formula only."""

    part: float
    usage: float
    level: float | None = None
    factor: float | None = None


def standings(root: Account, formula: FairShareFormula) -> dict[Key, Standing]:
    """Of every association below the root, and the root."""
    match formula:
        case FairShareFormula.FAIR_TREE:
            return fair_tree(root)
        case FairShareFormula.CLASSIC:
            return classic(root)


def fair_tree(root: Account) -> dict[Key, Standing]:
    levels: dict[Key, Standing] = {root.key: Standing(1.0, 1.0)}
    note_levels(root, 1.0, levels)
    users = sum(user is not None for _, user in levels)
    rank = users
    for tied in ranked(root.members, levels):
        for key in tied:
            levels[key] = levels[key]._replace(factor=rank / users)
        rank -= len(tied)
    return levels


def note_levels(account: Account, part: float, levels: dict[Key, Standing]) -> None:
    """The levels of all below the account, whose own part of its siblings' shares is `part`."""
    shares, used = total_shares(account), account.usage
    for member in account.members:
        if member.shares == PARENT:
            levels[member.key] = Standing(part, ratio(member.usage, used), inf)
            continue
        own = max(0.0, member.shares)
        # One division, so that levels which are equal in truth are equal as floats.
        level = 0.0 if not own else inf if not member.usage else own * used / (member.usage * shares)
        levels[member.key] = Standing(ratio(own, shares), ratio(member.usage, used), level)
        if isinstance(member, Account):
            note_levels(member, ratio(own, shares), levels)


def ranked(siblings: Iterable[User | Account], levels: Mapping[Key, Standing]) -> Iterator[list[Key]]:
    """The users among and below the siblings, best first; those that tie together."""

    def level(member: User | Account) -> float:
        return -(levels[member.key].level or 0.0)

    for _, group in groupby(sorted(siblings, key=level), level):
        users: list[Key] = []
        merged: list[User | Account] = []
        for member in group:
            if isinstance(member, User):
                users.append(member.key)
            else:
                merged += member.members
        below = ranked(merged, levels)
        if first := users + next(below, []):
            yield first
        yield from below


def classic(root: Account) -> dict[Key, Standing]:
    found = {root.key: Standing(1.0, 1.0, factor=halving(1.0, 1.0))}
    shares = total_shares(root)
    for member in root.members:
        part = ratio(max(0.0, member.shares), shares)
        note_classic(member, Standing(part, ratio(member.usage, root.usage)), root.usage, found)
    return found


def note_classic(member: User | Account, own: Standing, used: float, found: dict[Key, Standing]) -> None:
    """`own`: its part and effective usage. `used`: what everybody used."""
    found[member.key] = own._replace(factor=halving(own.usage, own.part))
    if isinstance(member, User):
        return
    shares = total_shares(member)
    for below in member.members:
        if below.shares == PARENT:
            note_classic(below, own, used, found)
            continue
        part, actual = ratio(max(0.0, below.shares), shares), ratio(below.usage, used)
        effective = actual + (own.usage - actual) * part
        note_classic(below, Standing(own.part * part, effective), used, found)


def halving(usage: float, part: float) -> float:
    """2^(-usage / part): one half for who has used exactly the part."""
    return 2.0 ** -(usage / part) if part else 0.0


def total_shares(account: Account) -> float:
    return sum(max(0.0, member.shares) for member in account.members)


def ratio(some: float, whole: float) -> float:
    """Nothing of nothing is nothing."""
    return some / whole if whole else 0.0
