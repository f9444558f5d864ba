"""A long sequence in order is what sorting would give, whatever came and went."""

from random import Random

from phalanx.state.pending.ordered import FULL, Ordered


def test_members_come_and_go_and_the_rest_is_in_order() -> None:
    seed, there = Random(3), [(number % 97, number) for number in range(3 * FULL)]
    order = Ordered(seed.sample(there, len(there)))
    for number in range(6 * FULL):
        if there and seed.random() < 0.6:
            order.remove(there.pop(seed.randrange(len(there))))
        else:
            there.append((seed.randrange(97), 3 * FULL + number))
            order.add(there[-1])
    assert list(order) == sorted(there)


def test_one_that_was_emptied_takes_members_again() -> None:
    order = Ordered([(1, "a")])
    order.remove((1, "a"))
    assert not order
    for member in [(2, "b"), (1, "a"), (3, "c")]:
        order.add(member)
    assert list(order) == [(1, "a"), (2, "b"), (3, "c")]


def test_what_is_added_in_one_place_again_and_again_is_cut_into_blocks() -> None:
    order = Ordered([(0, 0), (2, 0)])
    for number in range(3 * FULL):
        order.add((1, -number))
    assert list(order) == [(0, 0), *((1, -number) for number in reversed(range(3 * FULL))), (2, 0)]


def test_a_copy_is_its_own() -> None:
    order = Ordered([(1, "a"), (2, "b")])
    other = order.copy()
    order.remove((1, "a"))
    other.add((0, "z"))
    assert (list(order), list(other)) == ([(2, "b")], [(0, "z"), (1, "a"), (2, "b")])
