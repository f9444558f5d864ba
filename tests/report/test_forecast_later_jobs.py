"""Jobs that may be submitted later are the recent ones once more."""

from __future__ import annotations

from dataclasses import replace
from itertools import islice

from phalanx.core.fold.fold import fold
from phalanx.model.event import RunTold, Submitted
from phalanx.model.job import Dependency, Job
from phalanx.report.forecast import MOST_LATER, later_jobs, once_more, resubmitted
from phalanx.state.cluster import Cluster
from phalanx.state.run_times import Window, name_of_kind
from tests.core.builders import cluster, job, node, role


def at(submitted_s: float, name: str = "j") -> Job:
    return replace(job(f"{name}-{submitted_s:g}", role(cpu=1)), submitted_s=submitted_s, user="ada")


WINDOW = Window(100.0, 200.0, [at(110.0), at(150.0), at(195.0)])


def test_they_come_at_the_same_distances_round_and_round() -> None:
    times = [each.submitted_s for each in islice(once_more(WINDOW, 0.0), 7)]
    assert times == [210.0, 250.0, 295.0, 310.0, 350.0, 395.0, 410.0]


def test_each_play_begins_at_another_moment() -> None:
    assert [each.submitted_s for each in islice(once_more(WINDOW, 0.45), 4)] == [205.0, 250.0, 265.0, 305.0]
    assert [each.submitted_s for each in islice(once_more(WINDOW, 0.99), 2)] == [211.0, 251.0]


def test_a_play_has_no_end_of_them_but_a_bound() -> None:
    assert sum(1 for _ in once_more(WINDOW, 0.5)) == MOST_LATER


def test_each_is_of_its_kind_and_waits_for_nothing_but_its_turn() -> None:
    old = replace(at(150.0, "ns/train-7"), after=(Dependency(job="ns/x"),), begin_s=160.0, array="a", array_cap=1)
    new = resubmitted(old, 12, 250.0)
    assert new.id != old.id
    assert name_of_kind(new.id) == name_of_kind(old.id)
    assert (new.user, new.roles, new.limit_s) == (old.user, old.roles, old.limit_s)
    assert (new.submitted_s, new.after, new.begin_s, new.array, new.array_cap) == (250.0, (), None, "", None)
    assert len({each.id for each in once_more(WINDOW, 0.2)}) == MOST_LATER


def test_what_was_submitted_of_late_is_read_off_the_state() -> None:
    book: Cluster = cluster(node("n", cpu=4000))
    assert [list(each) for each in later_jobs(book, 100.0, 2)] == [[], []]
    fold(book, [RunTold(at(float(n), "old"), 5.0) for n in range(1, 41)])
    fold(book, [Submitted(at(50.5, "live"))])
    first, second = (list(islice(each, 2)) for each in later_jobs(book, 61.0, 2))
    assert [each.submitted_s for each in first] == [62.0, 63.0]  # 2 and 3, a minute later
    assert [each.submitted_s for each in second] == [61.0, 62.0]  # those of the second half, 31 and so on
    assert [name_of_kind(each.id) for each in second] == ["old", "old"]
