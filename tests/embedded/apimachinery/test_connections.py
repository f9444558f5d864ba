"""Limits on connections: a user who opens many loses the own ones."""

from __future__ import annotations

from dataclasses import dataclass

from phalanx.embedded.apimachinery.connections import Connections


@dataclass(eq=False)
class Client:
    active_s: float
    user: str = ""
    limited: bool = False
    unread_bytes: int = 0
    unread_s: float = 0.0
    aborted: bool = False

    def abort(self) -> None:
        self.aborted = True


def opened(connections: Connections[Client], user: str, *active_s: float, limited: bool = True) -> list[Client]:
    made = [Client(at) for at in active_s]
    for one in made:
        connections.add(one)
        connections.claim(one, user, limited=limited)
    return made


def test_of_a_user_with_too_many_the_one_that_was_silent_longest_goes() -> None:
    connections: Connections[Client] = Connections(most=100, most_of_one=3)
    ada, bob = opened(connections, "ada", 5, 3, 4, 6), opened(connections, "bob", 1)
    assert [one.aborted for one in (*ada, *bob)] == [False, True, False, False, False]
    admin = opened(connections, "admin", *range(9), limited=False)
    assert not any(one.aborted for one in admin)
    assert len(list(connections)) == 3 + 1 + 9


def test_where_all_are_too_many_it_is_one_of_whoever_has_most() -> None:
    connections: Connections[Client] = Connections(most=6, most_of_one=100)
    admin, ada = opened(connections, "admin", 0, limited=False), opened(connections, "ada", 3, 2, 4, 9)
    strangers = [Client(1), Client(5), Client(6), Client(7)]
    for one in strangers:
        connections.add(one)
    assert [one.active_s for one in (*admin, *ada, *strangers) if one.aborted] == [3, 2, 1]


def test_what_is_closed_counts_no_more() -> None:
    connections: Connections[Client] = Connections(most=2, most_of_one=2)
    first, second = opened(connections, "ada", 1, 2)
    connections.discard(first)
    connections.discard(first)
    (third,) = opened(connections, "ada", 3)
    assert not second.aborted
    assert not third.aborted
    assert set(connections) == {second, third}


def test_of_answers_that_a_user_does_not_read_the_one_that_waits_longest_goes() -> None:
    connections: Connections[Client] = Connections(unread_bytes_of_one=100)
    ada, admin = opened(connections, "ada", 1, 2, 3), opened(connections, "admin", 1, 2, limited=False)
    for at, one in enumerate((*ada, *admin)):
        one.unread_bytes, one.unread_s = 40, 9.0 - at
        connections.unread(one)
    assert [one.aborted for one in (*ada, *admin)] == [False, False, True, False, False]


def test_one_answer_may_be_as_large_as_it_is() -> None:
    connections: Connections[Client] = Connections(unread_bytes_of_one=100)
    (only,) = opened(connections, "ada", 1)
    only.unread_bytes = 1000
    connections.unread(only)
    assert not only.aborted
