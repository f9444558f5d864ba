"""Trees of accounts with users."""

from __future__ import annotations

from phalanx.slurm.cluster.site import Account, Association, Site

SITE = Site(
    accounts={"chem": Account(shares=60), "lab": Account(parent="chem")},
    users={"u1": [Association(account="lab", qos=["fast"])]},
)


MADE = Site(
    cluster="c",
    accounts={
        "physics": Account(number=3),
        "chem": Account(number=4),
        "sub": Account(number=8, parent="chem"),
        "aaa": Account(number=9),
    },
    users={
        "u1": [Association(account=name, number=at) for name, at in (("physics", 5), ("chem", 12), ("aaa", 13))],
        "u2": [Association(account="chem", number=6), Association(account="physics", number=7)],
        "u3": [Association(account="sub", number=10), Association(account="aaa", number=11)],
    },
)
