"""`core/order/account_usage.py`: the usage of accounts by which a queue in USAGE order chooses."""

from __future__ import annotations

from dataclasses import replace
from math import inf

import pytest

from phalanx.core.decide import decide
from phalanx.core.fold.fold import fold
from phalanx.core.order.account_usage import AccountUsage, over
from phalanx.model.event import QueueSeen, Ticked, UsageTold
from phalanx.model.job import Job
from phalanx.model.plan import Start
from phalanx.model.policy import Policy
from phalanx.model.queue import Queue, QueueOrder, UsageTerms
from phalanx.state.cluster import Cluster
from tests.core.builders import cluster, job, node, role

TERMS = UsageTerms(half_life_s=3600.0, billing=(("cpu", 1.0),), entry_s=100.0)
ACCOUNTS = (("lab", 1.0), ("team", 4.0), ("nothing", 0.0))
QUEUE = Queue(name="q", order=QueueOrder.USAGE, accounts=ACCOUNTS, usage=TERMS)


def book(*jobs: Job, **used: float) -> Cluster:
    told = [UsageTold("q", account, usage, 0.0) for account, usage in used.items()]
    return cluster(QueueSeen(QUEUE), Ticked(0.0), *told, node("n", cpu=3), *jobs)


def of(name: str, account: str, at: float = 0.0) -> Job:
    return replace(job(name, role(cpu=1), queue="q", at=at), account=account, limit_s=60.0)


def test_usage_is_divided_by_shares_and_without_shares_an_account_comes_last() -> None:
    usage = AccountUsage(book(lab=100.0, team=200.0, nothing=1.0), 0.0)
    assert usage.of_account(QUEUE, "lab") == pytest.approx(100.0)
    assert usage.of_account(QUEUE, "team") == pytest.approx(50.0)
    assert usage.of_account(QUEUE, "nothing") == inf
    assert usage.of_account(QUEUE, "unknown") == 0.0
    assert over(0.0, 0.0) == inf


def test_usage_decays() -> None:
    usage = AccountUsage(book(lab=100.0), TERMS.half_life_s)
    assert usage.of_account(QUEUE, "lab") == pytest.approx(50.0)


def test_the_usage_of_a_queue_is_that_of_all_its_accounts() -> None:
    found = book(lab=100.0, team=200.0)
    fold(found, [QueueSeen(replace(QUEUE, weight=3.0))])
    found = found.copy()
    decide(found, Policy(), 0.0)
    assert AccountUsage(found, 0.0).of_queue(found.tree.branch("q")) == pytest.approx(100.0)


def test_a_job_that_starts_in_this_cycle_counts_at_once() -> None:
    found, started = book(of("a", "lab")), list[tuple[Job, tuple[tuple[tuple[str, str], int], ...]]]()
    usage = AccountUsage(found, 0.0, started)
    assert usage.of_account(QUEUE, "lab") == 0.0
    started.append((of("a", "lab"), ((("", "cpu"), 1),)))
    first = usage.of_account(QUEUE, "lab")
    assert first == pytest.approx(TERMS.entry_s, rel=0.05)
    started.append((of("b", "lab"), ((("", "cpu"), 1), (("spot", "cpu"), 1))))
    assert usage.of_account(QUEUE, "lab") == pytest.approx(2 * first), "the part of a flavor does not count twice"


def test_the_account_that_used_least_starts_first_and_accounts_take_turns() -> None:
    jobs = [of(f"{account}-{at}", account, at=float(at)) for account in ("lab", "team") for at in range(3)]
    found = book(*jobs, lab=40.0)
    started = [action.job for action in decide(found, Policy(), 0.0).actions if isinstance(action, Start)]
    assert started == ["team-0", "team-1", "lab-0"]
