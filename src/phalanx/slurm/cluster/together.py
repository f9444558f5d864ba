"""Calls for many things at once, over several connections."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from typing import TypeVar

from phalanx.errors import PhalanxError
from phalanx.slurm.cluster.api import Api

_CONNECTIONS, _MANY = 8, 64
T = TypeVar("T")


def for_each(api: Api, things: Iterable[T], work: Callable[[Api, T], None]) -> None:
    """Do the work for each thing. Many things use several connections, because the server writes concurrent changes to
    its disk together. Few things are done one after the other, in their order. After a failure no further thing is
    begun. Raises the first PhalanxError."""
    left = deque(things)
    failed: list[PhalanxError] = []

    def some(connection: Api) -> None:
        while left and not failed:
            try:
                thing = left.popleft()
            except IndexError:  # another thread took the last thing
                return
            try:
                work(connection, thing)
            except PhalanxError as error:
                failed.append(error)

    if len(left) < _MANY:
        some(api)
    else:
        _over_several(api, some, left.clear)
    if failed:
        raise failed[0]


def _over_several(api: Api, some: Callable[[Api], None], stop: Callable[[], None]) -> None:
    from threading import Thread

    others = [Thread(target=some, args=(api.another(),)) for _ in range(_CONNECTIONS - 1)]
    for other in others:
        other.start()
    try:
        some(api)
    finally:
        stop()  # after Ctrl-C no thread begins another thing
        for other in others:
            other.join()
