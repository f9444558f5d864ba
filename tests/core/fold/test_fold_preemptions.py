"""Preemptions are counted against a queue's hourly budget."""

from __future__ import annotations

from phalanx.core.fold.fold import fold
from phalanx.model.event import QueueGone, Started, Ticked
from phalanx.model.job import Placement
from phalanx.model.plan import Preempt, Start
from phalanx.model.reason import Reason, ReasonCode
from tests.core.builders import cluster, job, node, role

WHY = Reason(code=ReasonCode.NO_ROOM, text="gives way")


def test_of_preemptions_the_last_hour_is_remembered_and_as_long_as_the_queue_is_there() -> None:
    book = cluster(node("n", cpu=9), *(job(name, role(cpu=1)) for name in "abc"))
    for name, at_s in zip("abc", (100.0, 3000.0, 4000.0), strict=True):
        start = Start(name, 1, (Placement(0, 0, "n"),), at_s, (), None)
        fold(book, [Ticked(at_s), start, Started(name, 1), Preempt(name, 1, "x", WHY)])
    assert list(book.preempted_at["default"]) == [3000.0, 4000.0]
    fold(book, [QueueGone("default")])
    assert not book.preempted_at
