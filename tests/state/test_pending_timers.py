"""`state/pending/pending.py`: at most one timer for each item, in one heap."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from phalanx.state.pending.pending import NEVER_S, Timers

ITEMS = st.sampled_from("abcd")
TIMES = st.sampled_from([1.0, 2.0, 3.0, NEVER_S])
CHANGES = st.one_of(
    st.tuples(st.just("set"), ITEMS, TIMES),
    st.tuples(st.just("drop"), ITEMS, st.just(0.0)),
    st.tuples(st.just("due"), st.just(""), st.sampled_from([1.0, 2.0])),
)


@given(st.lists(CHANGES), st.sets(ITEMS))
def test_timers_are_those_of_a_dictionary(changes: list[tuple[str, str, float]], without: set[str]) -> None:
    wanted: dict[str, float] = {}
    timers = Timers()
    for what, item, at_s in changes:
        if what == "set":
            timers.set(item, at_s)
            wanted.pop(item, None)
            if at_s < NEVER_S:
                wanted[item] = at_s
        elif what == "drop":
            timers.drop(item)
            wanted.pop(item, None)
        else:
            expired = [each for each in wanted if wanted[each] <= at_s]
            found = timers.due(at_s)
            assert sorted(map(str, found)) == sorted(expired)
            assert [wanted[str(each)] for each in found] == sorted(wanted[each] for each in expired), "earliest first"
            for each in expired:
                del wanted[each]
        assert set(timers) == set(wanted)
        assert timers.next_s() == min(wanted.values(), default=None)
        assert timers.next_s(without) == min((wanted[each] for each in wanted if each not in without), default=None)
    copy = timers.copy()
    timers.set("a", 0.5)
    assert set(copy) == set(wanted), "a copy has timers of its own"


def test_a_timer_that_is_set_again_and_again_does_not_fill_the_heap() -> None:
    timers = Timers()
    for number in range(1_000):
        timers.set("a", float(number))
    assert len(timers._heap) < 100
    assert timers.due(998.0) == []
    assert timers.due(999.0) == ["a"]
