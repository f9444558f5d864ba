"""The usage of a queue counts users, groups and jobs only where a limit is for them, and forgets its shares."""

from __future__ import annotations

from phalanx.state.queues.quota import Charge, QueueUsage
from phalanx.state.queues.rules import JobLimits

CPU = ("", "cpu")
CHARGE = Charge("q", "ann", "lab", ((CPU, 2), (("a100", "cpu"), 2)), job="j")


def test_a_charge_counts_for_those_that_a_limit_is_for() -> None:
    usage = QueueUsage(JobLimits(users=True, jobs=True))
    usage.add(CHARGE, 1)
    assert usage.total == {CPU: 2, ("a100", "cpu"): 2}
    assert (usage.users["ann"].running, usage.users["ann"].used) == (1, {"cpu": 2})
    assert usage.jobs["j"].used == {"cpu": 2}
    assert not usage.groups


def test_a_charge_that_is_given_back_leaves_nothing() -> None:
    usage, unused = (QueueUsage(JobLimits(users=True, groups=True)) for _ in range(2))
    usage.add(CHARGE, 1)
    usage.add(CHARGE, -1)
    assert usage.shown() == unused.shown()


def test_a_copy_has_its_own_amounts_and_a_charge_forgets_shares() -> None:
    usage = QueueUsage(JobLimits(users=True))
    usage.add(CHARGE, 1)
    usage.shares[()] = 0.5
    copy = usage.copy()
    copy.add(CHARGE, 1)
    assert (usage.total[CPU], copy.total[CPU], usage.users["ann"].running) == (2, 4, 1)
    assert usage.shares == {(): 0.5}
    usage.add(CHARGE, -1)
    assert not usage.shares
