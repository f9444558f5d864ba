"""The open connections of a server. Limits for each user ensure that no user takes so many connections that other users
get none.

Each user has a limit on connections (and on watches, each of which has its own connection). If a user exceeds the
limit, the server closes the user's longest idle connection. If the whole process reaches its limit, the server closes a
connection of the user with the most connections; all connections without a known user count together, as the
connections of one user. The memory for unread responses is also limited for each user. If a user exceeds this limit,
the server closes the connection whose client has not read for the longest time.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from typing import Generic, Protocol, TypeVar

_MOST, _MOST_OF_ONE, _UNREAD_BYTES = 16_384, 1024, 256 * 2**20


class Client(Protocol):
    """A connection. `user`: the user of the connection; "" if unknown. `limited`: True if the limits apply to the user.
    `active_s`: the time at which the connection was last used. `unread_bytes`: the number of response bytes that the
    client has not read yet. `unread_s`: the time since which there are unread bytes."""

    user: str
    limited: bool
    active_s: float

    @property
    def unread_bytes(self) -> int: ...

    @property
    def unread_s(self) -> float: ...

    def abort(self) -> None: ...


Open = TypeVar("Open", bound=Client)


class Connections(Generic[Open]):
    """All open connections of one server."""

    def __init__(
        self, most: int = _MOST, most_of_one: int = _MOST_OF_ONE, unread_bytes_of_one: int = _UNREAD_BYTES
    ) -> None:
        self._most, self._most_of_one, self._unread_bytes_of_one = most, most_of_one, unread_bytes_of_one
        self._of: dict[str, dict[Open, None]] = {}
        self._count = 0

    def __iter__(self) -> Iterator[Open]:
        return chain.from_iterable(self._of.values())

    def __len__(self) -> int:
        return self._count

    def add(self, one: Open) -> None:
        """Add a new connection. If the process has reached its limit, close the longest idle connection of the user
        with the most connections."""
        if len(self) >= self._most:
            self._let_go(_silent_longest(max(self._of.values(), key=len)))
        self._of.setdefault(one.user, {})[one] = None
        self._count += 1

    def discard(self, one: Open) -> None:
        """Remove a connection that is closed."""
        if one not in (mine := self._of.get(one.user, {})):
            return
        del mine[one]
        self._count -= 1
        if not mine:
            del self._of[one.user]

    def claim(self, one: Open, user: str, *, limited: bool) -> None:
        """Record that the connection belongs to `user`. If the user exceeds the limit, close the user's longest idle
        connection. `limited`: True if the limits apply to the user."""
        if one.user == user:
            return
        self.discard(one)
        one.user, one.limited = user, limited
        if limited and len(mine := self._of.get(user, {})) >= self._most_of_one:
            self._let_go(_silent_longest(mine))
        self._of.setdefault(user, {})[one] = None
        self._count += 1

    def unread(self, one: Open) -> None:
        """Record that the client did not read a response at once. If the unread responses of its user are too large,
        close the connection whose client has not read for the longest time."""
        if not one.limited:
            return
        waiting = [other for other in self._of.get(one.user, {}) if other.unread_bytes]
        if len(waiting) > 1 and sum(other.unread_bytes for other in waiting) > self._unread_bytes_of_one:
            self._let_go(min(waiting, key=lambda other: other.unread_s))

    def _let_go(self, one: Open) -> None:
        self.discard(one)
        one.abort()


def _silent_longest(some: dict[Open, None]) -> Open:
    return min(some, key=lambda one: one.active_s)
