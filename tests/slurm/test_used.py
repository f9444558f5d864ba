"""What jobs held in a period, as the ledger's database sums it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from phalanx.ledger.entry import JobEntry, StartEntry, State, url_of
from phalanx.ledger.store import Ledger
from phalanx.slurm.accounts.used import Period, UsedResources, held, waited_cpu_s
from phalanx.slurm.cluster.ledger import LedgerReader

PERIOD = Period(since_s=100.0, until_s=200.0, now_s=190.0)


def entry(name: str, start_s: float, end_s: float | None, cpus: int = 2, **more: object) -> JobEntry:
    amounts = {"cpu": cpus * 1000, "memory": 3 << 20}
    state = State.RUNNING if end_s is None else State.COMPLETED
    start = StartEntry(at_s=start_s, state=state, end_s=end_s, allocated=amounts)
    words = {"user": "ada", "account": "lab", "submit_s": 90.0, "eligible_s": 95.0} | more
    return JobEntry(uid=name, job=name, requested=amounts, state=state, end_s=end_s, starts=(start,), **words)  # type: ignore[arg-type]  # as in the entry


@pytest.fixture(scope="module")
def ledger(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LedgerReader]:
    url = url_of(tmp_path_factory.mktemp("used") / "ledger.sqlite3")
    with Ledger.open(url) as ledger:
        ledger.put(
            [
                entry("before", 91.0, 99.0),
                entry("across", 91.0, 110.0),
                entry("inside", 110.0, 120.0),
                entry("runs", 180.0, None),
                entry("other", 150.0, 151.0, cpus=1, user="controller", group="bob", number=7),
                entry("after", 195.0, None),
            ]
        )
    with LedgerReader.at(url) as found:
        yield found


def test_equal_runs_are_summed_within_the_period(ledger: LedgerReader) -> None:
    tres = {"mem": 3.0, "cpu": 2.0, "billing": 2.0}
    assert held(ledger, PERIOD, ["ada"]) == [UsedResources(account="lab", user="ada", seconds=30.0, count=3, tres=tres)]


def test_the_user_of_a_numbered_job_is_its_group(ledger: LedgerReader) -> None:
    found = held(ledger, PERIOD)
    assert sorted((one.user, one.seconds, one.cpus) for one in found) == [("ada", 30.0, 2), ("bob", 1.0, 1)]
    assert held(ledger, PERIOD, ["controller"]) == []


def test_a_period_ends_now_at_the_latest() -> None:
    assert PERIOD.last_s == 190.0
    assert Period(since_s=0.0, until_s=50.0, now_s=190.0).last_s == 50.0


def test_waiting_counts_from_when_a_job_might_start_and_within_the_period(ledger: LedgerReader) -> None:
    # inside: 10 s of 2 CPUs; runs: 80 s; other: 50 s of one CPU; after: 90 s, the others began before the period
    assert waited_cpu_s(ledger, PERIOD) == 10 * 2 + 80 * 2 + 50 * 1 + 90 * 2
