"""`kube/gang/spec/members.py`: options of the members of a gang; members that contradict each other."""

from __future__ import annotations

from tests.kube import double
from tests.kube.test_gang_spec import declared, why


def test_members_that_contradict_each_other() -> None:
    job = declared(double.pod("a", job="t", min_available="2"), double.pod("b", job="t", min_available="3"))
    assert "a sets phalanx.dev/min-available to 2, b to 3" in why(job)


def test_a_number_that_is_none() -> None:
    assert "p sets phalanx.dev/min-available to 'many'" in why(declared(double.pod("p", job="t", min_available="many")))
