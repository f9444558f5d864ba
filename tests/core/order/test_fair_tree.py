"""Fair Tree and the classic formula, against what a real Slurm (22.05.8) printed for the same trees.

tests/core/order/slurm/sshare_*: `sshare -al` of one cluster, as shown, as pipe-separated columns with six decimals, and
`--parsable`. The usages are cpus times seconds of the jobs that had run, decayed with a half-life of seven days: in the
nested tree the first batch of jobs was 157 s older than the second, and c3's job ended 0.2 s before the others.
"""

from __future__ import annotations

from datetime import datetime
from math import inf
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from phalanx.core.fold.fold import fold
from phalanx.core.order import fair_tree
from phalanx.core.order.fair_tree import (
    AccountAssociation,
    AssociationShare,
    Key,
    UserAssociation,
    association_shares,
    classic_fair_share,
    rank_fair_tree,
)
from phalanx.model.event import Finished, NodeSeen, PolicySeen, QueueSeen, Submitted, Ticked
from phalanx.model.job import Job, Placement
from phalanx.model.plan import Start
from phalanx.model.policy import FairShareFormula, Policy
from phalanx.model.queue import PARENT, Queue
from phalanx.state.cluster import Cluster
from tests.core.builders import node, role

SLURM = Path(__file__).parent / "slurm"


def decayed(age_s: float, **used: float) -> dict[str, float]:
    return {user: usage * 2 ** (-age_s / (7 * 86400)) for user, usage in used.items()}


FRESH = decayed(20, a1=800, a2=320, b1=200, b2=600)
NESTED = (
    decayed(167, a1=800, a2=320, b1=200, b2=600)
    | decayed(10, c1=80, c2=80, d1=120, d2=40, e1=20)
    | decayed(10.2, c3=160)
)
TIE = decayed(20, b1=300, c1=80, c2=80, c3=160)


def account(name: str, shares: float, *members: UserAssociation | AccountAssociation) -> AccountAssociation:
    return fair_tree.account_association((name, None), shares, members)


def tree(usage: dict[str, float], *, nested: bool) -> AccountAssociation:
    """The captured trees: root, with its user, and accounts a and b; nested: also c, d and e."""

    def user(account: str, name: str, shares: float = 1) -> UserAssociation:
        return UserAssociation(key=(account, name), shares=shares, usage=usage.get(name, 0.0))

    first: list[UserAssociation | AccountAssociation] = [
        user("root", "root"),
        account("a", 40, user("a", "a1"), user("a", "a2", 3)),
        account("b", 60, user("b", "b1"), user("b", "b2")),
    ]
    deep: list[UserAssociation | AccountAssociation] = [
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


# The nested tree as queues. The root's own user has, as an account would, a queue of its own.
ACCOUNTS = (
    Queue(name="root", weight=1, accounts=(("root", 1),)),
    Queue(name="a", weight=40, accounts=(("a1", 1), ("a2", 3))),
    Queue(name="b", weight=60, accounts=(("b1", 1), ("b2", 1))),
    Queue(name="c", weight=20, accounts=(("c3", 4),)),
    Queue(name="c1", parent="c", weight=2, accounts=(("c1", 5),)),
    Queue(name="c2", parent="c", weight=2, accounts=(("c2", 1),)),
    Queue(name="d", weight=30, accounts=(("d1", PARENT), ("d2", PARENT))),
    Queue(name="e", weight=0, accounts=(("e1", 1),)),
)
POLICY = Policy(billing=(("cpu", 0.001),))  # one unit for each cpu


def seconds(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()


def formula_of(capture: str) -> FairShareFormula:
    return FairShareFormula.CLASSIC if capture.startswith("classic") else FairShareFormula.FAIR_TREE


def rows(path: Path) -> list[dict[str, str]]:
    """The pipe-separated file as one mapping per association; accounts are indented by their depth."""
    lines = path.read_text().splitlines()
    names = lines[0].split("|")
    return [dict(zip(names, (cell.strip() for cell in line.split("|")), strict=True)) for line in lines[1:]]


def key(row: dict[str, str]) -> Key:
    return (row["Account"], row["User"] or None)


def usages(member: UserAssociation | AccountAssociation) -> dict[Key, float]:
    found = {member.key: member.usage}
    if isinstance(member, AccountAssociation):
        for below in member.members:
            found |= usages(below)
    return found


def printed(
    row: dict[str, str], standing: AssociationShare, usage: float, all_usage: float, *, levels: bool
) -> dict[str, str]:
    """The row as Slurm prints it. It shows the root's NormShares as 0 in Fair Tree, in which the effective usage of an
    account is the column NormUsage of its level, LevelFS as 0 in the classic formula, and neither for PARENT."""
    shown = dict(row)
    shown["NormShares"] = f"{0.0 if levels and not row['RawShares'] else standing.part:.6f}"
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
    formula = formula_of(capture)
    found, used = association_shares(root, formula), usages(root)
    levels = formula is FairShareFormula.FAIR_TREE
    shown = rows(SLURM / f"sshare_{capture}_{style}.txt")
    assert [printed(row, found[key(row)], used[key(row)], root.usage, levels=levels) for row in shown] == shown
    assert len(found) == len(shown)


@pytest.mark.parametrize("capture", CAPTURES)
def test_the_table_for_people_shows_the_same_factors(capture: str) -> None:
    found = association_shares(CAPTURES[capture], formula_of(capture))
    text = (SLURM / f"sshare_{capture}.txt").read_text().splitlines()
    head = next(line for line in text if line.startswith("Account"))
    at, width = head.index("FairShare") + len("FairShare"), len("FairShare") + 1
    for line in text[text.index(head) + 2 :]:
        account, user = line[:20].strip(), line[21:31].strip()
        factor = found[account, user or None].factor
        assert line[at - width : at].strip() == ("" if factor is None else f"{factor:.6f}")


def test_the_jobs_that_ran_give_the_book_what_slurm_printed() -> None:
    """The tie, from the jobs themselves (`sacct`: job, user, start, end, cpus): the same jobs run in our queues."""
    ran = [line.split() for line in (SLURM / "sshare_fairtree_4_exacttie_jobs.txt").read_text().splitlines()]
    ((begun_s, ended_s),) = {(seconds(started), seconds(ended)) for _, _, started, ended, _ in ran}
    book = Cluster()
    fold(book, [PolicySeen(POLICY), *map(QueueSeen, ACCOUNTS), NodeSeen(node("n", cpu=512_000)), Ticked(begun_s)])
    queue_of = {user: queue.name for queue in ACCOUNTS for user, _ in queue.accounts}
    for number, user, _, _, cpus in ran:
        asked = role(cpu=1000 * int(cpus))
        job = Job(id=number, queue=queue_of[user], user=user, submitted_s=begun_s, roles=(asked,))
        fold(book, [Submitted(job), Start(number, 1, (Placement(0, 0, "n"),), begun_s)])
    fold(book, [Ticked(ended_s), *(Finished(number) for number, *_ in ran)])

    now_s = seconds("2026-11-21T02:21:43")  # when sshare was asked
    found = fair_tree.fair_shares(book, POLICY, now_s)
    for row in rows(SLURM / "sshare_fairtree_4_exacttie_cols.txt"):
        account, user = row["Account"], row["User"]
        if user and user != "root":
            assert int(book.usage.of(account, user, now_s)) == int(row["RawUsage"])
        ours = found["" if account == "root" and not user else account, user or None]
        assert row["FairShare"] == ("" if ours.factor is None else f"{ours.factor:.6f}")


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
    assert rank_fair_tree(account("root", 1)) == {("root", None): AssociationShare(1.0, 1.0)}


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

    def factor(extra: float) -> dict[FairShareFormula, float]:
        each = [
            UserAssociation(key=("x", str(number)), shares=shares, usage=usage + (extra if number == at else 0))
            for number, (shares, usage) in enumerate(users)
        ]
        root = account("root", 1, account("x", 2, *each[:half]), account("y", 1, *each[half:]))
        return {formula: association_shares(root, formula)["x", str(at)].factor or 0.0 for formula in FairShareFormula}

    before, after = factor(0), factor(7)
    assert all(after[formula] <= before[formula] + 1e-12 for formula in FairShareFormula)
