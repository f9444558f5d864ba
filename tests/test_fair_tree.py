"""`fair_tree.py`: Fair Tree and the classic formula, against what a real Slurm (22.05.8) printed for the same trees.

tests/core/order/slurm/sshare_*: `sshare -al` of one cluster, as shown, as pipe-separated columns with six decimals, and
`--parsable`. The usages are cpus times seconds of the jobs that had run, decayed with a half-life of seven days: in the
nested tree the first batch of jobs was 157 s older than the second, and c3's job ended 0.2 s before the others.
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from math import inf
from pathlib import Path
from random import Random
from typing import TypeAlias

import pytest
from hypothesis import given
from hypothesis import strategies as st

from phalanx.fair_tree import (
    PARENT,
    AccountAssociation,
    Association,
    AssociationShare,
    Key,
    UserAssociation,
    account_association,
    account_tree,
    classic_fair_share,
    halving,
    rank_fair_tree,
)

Levels: TypeAlias = tuple[Fraction | float, ...]
SLURM = Path(__file__).parent / "core" / "order" / "slurm"


def decayed(age_s: float, **used: float) -> dict[str, float]:
    return {user: usage * 2 ** (-age_s / (7 * 86400)) for user, usage in used.items()}


FRESH = decayed(20, a1=800, a2=320, b1=200, b2=600)
NESTED = (
    decayed(167, a1=800, a2=320, b1=200, b2=600)
    | decayed(10, c1=80, c2=80, d1=120, d2=40, e1=20)
    | decayed(10.2, c3=160)
)
TIE = decayed(20, b1=300, c1=80, c2=80, c3=160)


def account(name: str, shares: float, *members: Association) -> AccountAssociation:
    return account_association((name, None), shares, members)


def tree(usage: dict[str, float], *, nested: bool) -> AccountAssociation:
    """The captured trees: root, with its user, and accounts a and b; nested: also c, d and e."""

    def user(account: str, name: str, shares: float = 1) -> UserAssociation:
        return UserAssociation(key=(account, name), shares=shares, usage=usage.get(name, 0.0))

    first: list[Association] = [
        user("root", "root"),
        account("a", 40, user("a", "a1"), user("a", "a2", 3)),
        account("b", 60, user("b", "b1"), user("b", "b2")),
    ]
    deep: list[Association] = [
        account(
            "c",
            20,
            user("c", "c3", 4),
            account("c1", 2, user("c1", "c1", 5)),
            account("c2", 2, user("c2", "c2")),
        ),
        account("d", 30, user("d", "d1", PARENT), user("d", "d2", PARENT)),
        account("e", 0, user("e", "e1")),
    ]
    return account("root", 1, *first, *(deep if nested else []))


CAPTURES = {
    "fairtree_1": tree(FRESH, nested=False),
    "fairtree_2_nested": tree(NESTED, nested=True),
    "fairtree_3_allzero": tree({}, nested=True),
    "fairtree_4_exacttie": tree(TIE, nested=True),
    "classic_1": tree(FRESH, nested=False),
    "classic_2_nested": tree(NESTED, nested=True),
}


def shares_of(capture: str) -> dict[Key, AssociationShare]:
    """The shares of a captured tree by the formula of the capture."""
    return (classic_fair_share if capture.startswith("classic") else rank_fair_tree)(CAPTURES[capture])


def rows(path: Path) -> list[dict[str, str]]:
    """The pipe-separated file as one mapping per association; accounts are indented by their depth."""
    lines = path.read_text().splitlines()
    names = lines[0].split("|")
    return [dict(zip(names, (cell.strip() for cell in line.split("|")), strict=True)) for line in lines[1:]]


def key(row: dict[str, str]) -> Key:
    return (row["Account"], row["User"] or None)


def usages(member: Association) -> dict[Key, float]:
    found = {member.key: member.usage}
    if isinstance(member, AccountAssociation):
        for below in member.members:
            found |= usages(below)
    return found


def printed(
    row: dict[str, str], standing: AssociationShare, usage: float, all_usage: float, *, levels: bool
) -> dict[str, str]:
    """The row as Slurm prints it. In Fair Tree the effective usage of an account is the column NormUsage of its level.
    Slurm shows LevelFS as 0 in the classic formula, and as empty for PARENT."""
    shown = dict(row)
    shown["NormShares"] = f"{standing.part:.6f}"
    shown["RawUsage"] = str(int(usage))
    shown["NormUsage"] = f"{usage / all_usage if all_usage else 0.0:.6f}" if row["RawShares"] else ""
    shown["EffectvUsage"] = f"{standing.usage:.6f}"
    shown["FairShare"] = "" if standing.factor is None else f"{standing.factor:.6f}"
    if "LevelFS" in row:
        level = "0.000000" if not levels else "" if standing.level is None else f"{standing.level:.6f}"
        shown["LevelFS"] = "" if row["RawShares"] == "parent" else level
    return shown


@pytest.mark.parametrize("style", ["cols", "parsable"])
@pytest.mark.parametrize("capture", CAPTURES)
def test_every_column_is_what_slurm_printed(capture: str, style: str) -> None:
    root = CAPTURES[capture]
    found, used = shares_of(capture), usages(root)
    levels = capture.startswith("fairtree")
    shown = rows(SLURM / f"sshare_{capture}_{style}.txt")
    assert [printed(row, found[key(row)], used[key(row)], root.usage, levels=levels) for row in shown] == shown
    assert len(found) == len(shown)


@pytest.mark.parametrize("capture", CAPTURES)
def test_the_table_for_people_shows_the_same_factors(capture: str) -> None:
    found = shares_of(capture)
    text = (SLURM / f"sshare_{capture}.txt").read_text().splitlines()
    head = next(line for line in text if line.startswith("Account"))
    at, width = head.index("FairShare") + len("FairShare"), len("FairShare") + 1
    for line in text[text.index(head) + 2 :]:
        account, user = line[:20].strip(), line[21:31].strip()
        factor = found[account, user or None].factor
        assert line[at - width : at].strip() == ("" if factor is None else f"{factor:.6f}")


def test_parts_do_not_depend_on_usage() -> None:
    """Captured before Slurm had ranked the new users: they have no factor there yet, but their parts."""
    text = (SLURM / "sshare_fairtree_0_nousage.txt").read_text().splitlines()
    found = rank_fair_tree(tree({}, nested=False))
    for line in text[3:]:
        account, user, _, part = line[:20].strip(), line[21:31].strip(), line[31:42], line[42:54].strip()
        assert f"{found[account, user or None].part:.6f}" == part


def test_with_depth_oblivious_shares_slurm_differs_only_below_the_first_level() -> None:
    """One formula of Slurm is not offered. Its common part with the classic formula is the same here."""
    found = classic_fair_share(CAPTURES["classic_2_nested"])
    differ = []
    for row in rows(SLURM / "sshare_depthoblivious_2_nested_cols.txt"):
        ours = found[key(row)]
        assert row["NormShares"] == f"{ours.part:.6f}"
        if row["FairShare"] != f"{ours.factor:.6f}":
            differ.append(row["User"] or row["Account"])
    assert differ == ["a1", "a2", "b1", "b2", "c3", "c1", "c1", "c2", "c2"]


def test_a_user_who_ties_with_accounts_ranks_as_their_best() -> None:
    root = account(
        "root",
        1,
        UserAssociation(key=("root", "u"), usage=10),
        account("x", 1, UserAssociation(key=("x", "best"), usage=2), UserAssociation(key=("x", "worst"), usage=8)),
        account("y", 1, UserAssociation(key=("y", "middle"), usage=10)),
    )
    factors = {user: standing.factor for (_, user), standing in rank_fair_tree(root).items() if user}
    assert factors == {"u": 1.0, "best": 1.0, "middle": 0.5, "worst": 0.25}


def test_an_account_without_users_ranks_nobody() -> None:
    assert rank_fair_tree(account("root", 1, account("x", 1)))["x", None].level == inf
    assert rank_fair_tree(account("root", 1)) == {("root", None): AssociationShare(2**-32, 1.0)}


def test_shares_below_zero_are_none() -> None:
    root = account(
        "root", 1, UserAssociation(key=("root", "u"), shares=-7), UserAssociation(key=("root", "v"), shares=1)
    )
    assert classic_fair_share(root)["root", "u"] == AssociationShare(0.0, 0.0, None, 0.0)
    assert rank_fair_tree(root)["root", "u"].factor == 0.5


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 50)), min_size=1, max_size=12), st.data())
def test_who_uses_more_never_ranks_higher_for_it(users: list[tuple[int, int]], data: st.DataObject) -> None:
    half = data.draw(st.integers(0, len(users)))
    at = data.draw(st.integers(0, len(users) - 1))

    def factors(extra: float) -> list[float]:
        each = [
            UserAssociation(key=("x", str(number)), shares=shares, usage=usage + (extra if number == at else 0))
            for number, (shares, usage) in enumerate(users)
        ]
        root = account("root", 1, account("x", 2, *each[:half]), account("y", 1, *each[half:]))
        return [formula(root)["x", str(at)].factor or 0.0 for formula in (rank_fair_tree, classic_fair_share)]

    assert all(after <= before + 1e-12 for before, after in zip(factors(0), factors(7), strict=True))


def test_an_account_with_parent_forms_no_level() -> None:
    """Its members, also those of a further such account, have the same shares as directly in the account above."""
    best = UserAssociation(key=("x", "best"), shares=2, usage=1)
    worst = UserAssociation(key=("y", "worst"), shares=1, usage=8)
    beside = account("a", 3, UserAssociation(key=("a", "u"), usage=4))
    inner = account("x", PARENT, best, account("y", PARENT, worst))
    for formula in (rank_fair_tree, classic_fair_share):
        nested = formula(account("root", 1, account("top", 1, beside, inner)))
        plain = formula(account("root", 1, account("top", 1, beside, best, worst)))
        assert {key: nested[key] for key in plain} == plain
        assert nested["x", None].part == nested["y", None].part == nested["top", None].part
    assert (nested["x", None].usage, nested["x", None].factor) == (
        nested["top", None].usage,
        nested["top", None].factor,
    )


def test_parent_at_the_first_level_has_its_usage_and_the_factor_of_the_root() -> None:
    """In Slurm, `sshare` shows the usage of such an association (capture classic_5_parents, account t4), but the
    priority of jobs takes both numbers from the root (`_get_fairshare_priority`, priority_multifactor.c)."""
    users = [UserAssociation(key=(name, name), shares=PARENT, usage=1) for name in ("u", "v")]
    rest = UserAssociation(key=("root", "w"), usage=2)
    found = classic_fair_share(account("root", 1, users[0], account("v", PARENT, users[1]), rest))
    for key in (("u", "u"), ("v", None), ("v", "v")):
        assert found[key] == AssociationShare(1.0, 0.25, None, halving(1.0, 1.0))
    assert found["root", "w"] == AssociationShare(1.0, 0.5, None, halving(0.5, 1.0))
    below = account("d", 1, UserAssociation(key=("d", "d"), shares=PARENT, usage=1))
    deeper = classic_fair_share(account("root", 1, below, rest))
    assert deeper["d", "d"] == deeper["d", None]


@pytest.mark.parametrize(
    ("shares", "by_tree", "by_classic"),
    [(1.0, [1, 2 / 3, 2 / 3], [2 ** (-4 / 3), 2 ** (-7 / 3), 2 ** (-7 / 3)]), (PARENT, [1, 1, 1], [0.5, 0.5, 0.5])],
)
def test_a_very_deep_tree_does_not_recurse(shares: float, by_tree: list[float], by_classic: list[float]) -> None:
    deep = {f"a{number}": (f"a{number - 1}" if number else "", shares) for number in range(3000)}
    users = {name: [UserAssociation((name, "u"), usage=1.0)] for name in ("a0", "a1", "a2999")}
    root = account_tree(deep, lambda name: users.get(name, ()))
    for formula, expected in ((rank_fair_tree, by_tree), (classic_fair_share, by_classic)):
        found = formula(root)
        assert [found[name, "u"].factor for name in users] == pytest.approx(expected)


def test_accounts_without_a_path_to_the_root_are_left_out() -> None:
    parents = {"b": "a", "a": "", "x": "y", "y": "x", "orphan": "nowhere"}
    user = UserAssociation(key=("b", "u"))
    root = account_tree({name: (parent, 7.0) for name, parent in parents.items()}, lambda name: [user] * (name == "b"))
    assert root == account("", 1, account("a", 7, account("b", 7, user)))


def test_random_trees_are_ranked_by_the_definition_ties_included() -> None:
    """Small whole numbers, so that levels often tie. Some users and accounts have PARENT."""

    def drawn(random: Random, name: str, depth: int) -> Association:
        shares, usage = random.choice((PARENT, 0, 1, 2, 3, 4, 5, 6)), random.choice((0, 1, 3, 10, 26))
        if depth == 0 or random.random() < 0.5:
            return UserAssociation((name, name), shares, usage)
        return account(name, shares, *(drawn(random, f"{name}.{at}", depth - 1) for at in range(random.randint(1, 4))))

    for seed in range(300):
        random = Random(seed)
        root = account("root", 1, *(drawn(random, str(at), 3) for at in range(random.randint(1, 5))))
        factors = {key: share.factor for key, share in rank_fair_tree(root).items() if share.factor is not None}
        assert factors == factors_by_paths(root), seed


def factors_by_paths(root: AccountAssociation) -> dict[Key, float]:
    """The factors of the users, in another way: sort the users by the exact levels on their path from the root. Users
    are tied if one path is equal to the next one, or is its beginning."""
    paths = sorted(paths_of_users(root, ()), key=lambda each: each[0])
    factors: dict[Key, float] = {}
    rank, before = 0, None
    for at, (path, key) in enumerate(paths):
        if before is None or path[: len(before)] != before:
            rank = len(paths) - at
        factors[key], before = rank / len(paths), path
    return factors


def paths_of_users(account: AccountAssociation, above: Levels) -> Iterator[tuple[Levels, Key]]:
    """Each user below the account, and the negative levels on the path to the user."""
    members = list(of_one_level(account))
    shares = sum(max(0, int(member.shares)) for member in members)
    for member in members:
        own, used = int(member.shares), int(member.usage)
        level = inf if own == PARENT or not used else Fraction(own * int(account.usage), used * shares or 1)
        path = (*above, -level if own else 0.0)
        if isinstance(member, AccountAssociation):
            yield from paths_of_users(member, path)
        else:
            yield path, member.key


def of_one_level(account: AccountAssociation) -> Iterator[Association]:
    for member in account.members:
        if isinstance(member, AccountAssociation) and member.shares == PARENT:
            yield from of_one_level(member)
        else:
            yield member
