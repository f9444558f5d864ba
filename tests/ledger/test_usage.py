"""`ledger/usage.py`: sum the resources that jobs held, per user, account, queue or day."""

from __future__ import annotations

from phalanx.ledger.usage import By, total
from phalanx.model.event import Finished, Submitted
from phalanx.model.plan import Start
from tests.ledger.test_accountant import JOB, NODES, Books


def test_sums_are_of_the_part_within_the_period_and_of_each_day() -> None:
    day_s = 86400.0
    books = Books()
    books.hear(100.0, Submitted(JOB))
    books.plan(Start("ns/train", 1, NODES, at_s=day_s - 100.0))
    ended = books.hear(day_s + 50.0, Finished("ns/train"))
    by_day = total([ended], By.DAY, 1e9)
    assert {day: one.cpu_s for day, one in by_day.items()} == {"0": 300.0, "86400": 150.0}
    within = total([ended], By.USER, 1e9, since_s=day_s - 10.0, until_s=day_s + 10.0)
    assert (within["ada"].jobs, within["ada"].cpu_s) == (1, 60.0)
    assert total([ended], By.ACCOUNT, 1e9, since_s=day_s + 51.0) == {}
