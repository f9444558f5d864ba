"""`state/pending/request_class.py`: the requests of one class in order, and request classes as columns."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from phalanx.state.classes import Gang, InternTable
from phalanx.state.pending.placement_class import PlacementClass, PlacementClassKey
from phalanx.state.pending.request_class import (
    FIRST_LENGTH,
    Blocker,
    Kind,
    QueuedRequest,
    Request,
    RequestClass,
    RequestClassColumns,
    RequestClassKey,
    Terms,
)
from tests.core.builders import role


def gang() -> Gang:
    return InternTable().gang((role(count=1, gpu=1),))


GANG = gang()
PLACEMENT_CLASS = PlacementClass(3, PlacementClassKey(GANG), ())


def entry(name: int, arrival_s: float) -> QueuedRequest:
    return QueuedRequest(arrival_s, f"j{name:03}", Request(f"j{name:03}"))


def key_of(**terms: float) -> RequestClassKey:
    return RequestClassKey(int(Kind.JOB), 5, GANG, "q", Terms(**terms))


def new_class(first: QueuedRequest, **terms: float) -> RequestClass:
    return RequestClassColumns().open(key_of(**terms), PLACEMENT_CLASS, 7, first)


@given(st.integers(0, 3), st.lists(st.tuples(st.booleans(), st.integers(0, 5), st.integers(0, 9)), min_size=20))
def test_requests_come_in_order_whatever_was_added_and_removed(
    first: int, changes: list[tuple[bool, int, int]]
) -> None:
    """The requests are compared with a sorted list. A request that was removed may come back with another arrival."""
    wanted = {0: entry(0, first)}
    found = new_class(wanted[0])
    for adds, name, arrival_s in changes:
        if adds and name not in wanted:
            wanted[name] = entry(name, arrival_s)
            found.add(wanted[name])
        elif not adds and name in wanted and len(wanted) > 1:
            found.remove(wanted.pop(name).request)
        order = sorted(wanted.values())
        assert list(found) == order
        assert found.first == order[0]
        assert len(found) == len(order)
        assert set(found.requests()) == {each.request for each in order}
    other = new_class(entry(99, 9))
    other.take(found)
    found.add(entry(98, 9))
    assert list(other) == sorted(wanted.values()), "the two share no requests"


def test_columns_have_the_keys_of_each_class_and_vacant_places_no_class() -> None:
    columns, classes = RequestClassColumns(), []
    for number in range(FIRST_LENGTH + 2):  # the columns grow once
        key = key_of(limit_s=number + 1.0, nice=number)
        classes.append(columns.open(key, PLACEMENT_CLASS, 7, entry(number, number)))
    assert [each.number for each in classes] == list(range(FIRST_LENGTH + 2))
    for number in (0, 1, FIRST_LENGTH + 1):
        assert columns.request_classes[number] is classes[number]
        assert (columns.placement_class[number], columns.row[number], columns.priority[number]) == (3, 7, 5)
        assert (columns.limit_s[number], columns.nice[number]) == (number + 1, number)
    assert set(columns.placement_class[FIRST_LENGTH + 2 :]) == {-1}

    columns.reported_blocker[1], columns.preempts[1] = Blocker.QUOTA, True
    columns.vacate(1)
    assert columns.request_classes[1] is None
    assert (columns.placement_class[1], columns.reported_blocker[1], columns.preempts[1]) == (-1, 0, False)

    late = columns.open(key_of(), PLACEMENT_CLASS, 7, entry(100, 100))
    assert late.number == 1, "a vacant place is taken before a new one"
    assert columns.limit_s[1] == float("inf")
