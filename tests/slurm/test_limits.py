"""Limits of QOS and of users: what is refused, what waits and why, and how many run at a time."""

from __future__ import annotations

import pytest

from phalanx.slurm.accounts import limits
from phalanx.slurm.cluster.site import Account, Association, Qos, Site


def site(qos: dict[str, str], user: dict[str, str] | None = None, *flags: str) -> Site:
    return Site(
        accounts={"lab": Account()},
        users={"ada": [Association(account="lab", limits=user or {})]},
        qos={"normal": Qos(), "gold": Qos(limits=qos, flags=list(flags))},
    )


def test_what_sacctmgr_is_told_of_a_limit() -> None:
    before = limits.changed({}, limits.OF_USER, "maxtres", "cpu=2,mem=2048")
    assert before == {"maxtres": "cpu=2,mem=2G"}
    assert limits.changed(before, limits.OF_USER, "maxtres", "cpu=-1") == {"maxtres": "mem=2G"}
    assert limits.changed(before, limits.OF_USER, "maxtres", "-1") == {}
    assert limits.changed({}, limits.OF_USER, "maxwall", "1-0") == {"maxwall": "1-00:00:00"}
    for name, value in (("maxjobs", "many"), ("maxtres", "cpu=x"), ("maxtres", "bogus=1"), ("maxwall", "soon")):
        with pytest.raises(limits.LimitError):
            limits.changed({}, limits.OF_USER, name, value)
