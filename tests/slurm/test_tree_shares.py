"""sshare as a real Slurm 22.05.8 printed it, byte by byte (tests/core/order/slurm): the same tree and the same usage.

The usage is CPUs times seconds of the jobs that had run, decayed with a half-life of seven days: in the nested tree the
first jobs were 157 s older than the second ones, and c3's ended 0.2 s before. DIFFERS says what is not equal.
"""

from __future__ import annotations

from pathlib import Path

import msgspec

from phalanx.slurm.cluster.conf import read_conf
from phalanx.slurm.cluster.site import Account, Association, Site

GOLDEN = Path(__file__).parents[1] / "core" / "order" / "slurm"
# capture -> why it is not equal here (docs/guide/slurm.md)
DIFFERS = {
    "fairtree_0_nousage": "Slurm had not ranked its new users yet; here a user is ranked at once",
    "depthoblivious_2_nested": "PriorityFlags=DEPTH_OBLIVIOUS is not offered",
}

FIRST = {"a": Account(shares=40), "b": Account(shares=60)}
SECOND = {
    **FIRST,
    "c": Account(shares=20),
    "c1": Account(shares=2, parent="c"),
    "c2": Account(shares=2, parent="c"),
    "d": Account(shares=30),
    "e": Account(shares=0),
}
USERS = {
    "root": [Association(account="root")],
    "a1": [Association(account="a")],
    "a2": [Association(account="a", shares=3)],
    "b1": [Association(account="b")],
    "b2": [Association(account="b")],
}
MORE = {
    "c1": [Association(account="c1", shares=5)],
    "c2": [Association(account="c2")],
    "c3": [Association(account="c", shares=4)],
    "d1": [Association(account="d", shares=-1)],
    "d2": [Association(account="d", shares=-1)],
    "e1": [Association(account="e")],
}


def decayed(age_s: float, **used: float) -> dict[tuple[str, str], float]:
    """`used`: user -> CPUs times seconds."""
    accounts = {user: theirs[0].account for user, theirs in (USERS | MORE).items()}
    return {(accounts[user], user): amount * 2 ** (-age_s / (7 * 86400)) for user, amount in used.items()}


FRESH = decayed(20, a1=800, a2=320, b1=200, b2=600)
NESTED = (
    decayed(167, a1=800, a2=320, b1=200, b2=600)
    | decayed(10, c1=80, c2=80, d1=120, d2=40, e1=20)
    | decayed(10.2, c3=160)
)
# A deep tree with accounts and users that have their parent's shares, none, and a long name. user's account, user ->
# shares, CPUs, seconds: all began at once two minutes before they were looked at.
LONG = "a-very-long-name-of-an-account-that-nobody-types"
DEEP = {
    "t1": Account(shares=40),
    "t2": Account(shares=60),
    "t3": Account(shares=0),
    "t4": Account(shares=-1),
    "t1a": Account(shares=7, parent="t1"),
    "t1b": Account(shares=0, parent="t1"),
    "t1c": Account(shares=-1, parent="t1"),
    "t1a1": Account(shares=3, parent="t1a"),
    "t1a1x": Account(shares=2, parent="t1a1"),
    "t1a1xy": Account(shares=5, parent="t1a1x"),
    "t1a1xyz": Account(shares=1, parent="t1a1xy"),
    LONG: Account(shares=9, parent="t2"),
}
BELOW = {
    ("t1", "a1"): (3, 5, 8), ("t1a", "a2"): (-1, 4, 6), ("t1a", "b1"): (2, 2, 9), ("t1a1xyz", "b2"): (1, 6, 5),
    ("t1a1xyz", "c1"): (-1, 1, 8), ("t1b", "c2"): (1, 2, 7), ("t2", "c3"): (0, 3, 4), ("t2", "d1"): (5, 7, 6),
    ("t3", "d2"): (4, 1, 5), ("t4", "e1"): (2, 4, 8), (LONG, "head"): (-1, 2, 9), ("t1c", "yan"): (3, 3, 6),
    ("t1c", "oper"): (-1, 5, 5), ("t2", "a1"): (2, 3, 7), ("root", "root"): (1, 0, 0),
}  # fmt: skip
PARENTS = Site(accounts=DEEP, counts_gpus=False)
for (account, user), (shares, _, _) in BELOW.items():
    PARENTS.users.setdefault(user, []).append(Association(account=account, shares=shares))
SPENT = {key: cpus * run_s * 2 ** (-(120 + run_s) / (7 * 86400)) for key, (_, cpus, run_s) in BELOW.items()}
TIE = decayed(20, b1=300, c1=80, c2=80, c3=160)
SMALL = Site(accounts=FIRST, users=USERS, counts_gpus=False)
LARGE = msgspec.structs.replace(SMALL, accounts=SECOND, users=USERS | MORE)
CAPTURES = {
    "fairtree_1": (SMALL, FRESH),
    "fairtree_2_nested": (LARGE, NESTED),
    "fairtree_3_allzero": (LARGE, {}),
    "fairtree_4_exacttie": (LARGE, TIE),
    "classic_1": (msgspec.structs.replace(SMALL, classic=True), FRESH),
    "classic_2_nested": (msgspec.structs.replace(LARGE, classic=True), NESTED),
    "fairtree_5_parents": (PARENTS, SPENT),
    "classic_5_parents": (msgspec.structs.replace(PARENTS, classic=True), SPENT),
}


def test_every_capture_is_compared_or_has_its_reason() -> None:
    known = {*CAPTURES, *DIFFERS}
    files = {path.stem.removeprefix("sshare_") for path in GOLDEN.glob("sshare_*.txt")}
    files.remove("fairtree_4_exacttie_jobs")  # the jobs that TIE is made of
    assert {name.removesuffix("_cols").removesuffix("_parsable") for name in files} == known


def test_the_formula_comes_from_the_slurm_conf() -> None:
    found, told = read_conf("PriorityFlags=NO_FAIR_TREE,ACCRUE_ALWAYS\n")
    assert found.classic
    assert [(one.text, one.taken) for one in told] == [
        ("PriorityFlags=NO_FAIR_TREE", True),
        ("PriorityFlags=ACCRUE_ALWAYS", False),
    ]
    found, told = read_conf("PriorityFlags=DEPTH_OBLIVIOUS\n")
    assert (found.classic, [one.taken for one in told]) == (False, [False])
