"""A decision that broke a promise (more on a node than it has): what it was decided on is listed again.

Either the core is wrong, or it was told wrong things: an event that was lost shows in a list. So before anything of the
plan is carried out (a Job resumed, a victim called back), pods, Jobs, nodes and queues are listed once more. Their
differences are told as changes; the last look of the barrier then binds nothing over capacity. A defect that breaks a
promise in each cycle makes no more than a list a minute. The breach itself is counted, and logged here.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Awaitable, Callable
from math import inf

from phalanx.client.connection import ApiError

log = logging.getLogger(__name__)

_REST_S = 60.0  # between two lists


class BreachRelist:
    """`breaches`: how many decisions broke a promise so far."""

    def __init__(self, breaches: Callable[[], int]) -> None:
        self._breaches, self._known = breaches, 0
        self._listed_s = -inf
        self._doubtful = False

    def must_relist(self) -> bool:
        """Return whether the latest decision must wait until all objects are listed again."""
        found, now_s = self._breaches(), time.monotonic()
        fresh, self._known = found > self._known, found
        if fresh and now_s - self._listed_s >= _REST_S:
            self._doubtful, self._listed_s = True, now_s
        return self._doubtful

    async def relist_if_due(self, list_again: Callable[[], Awaitable[None]]) -> None:
        """List the objects again if that is due. Kinds that cannot be listed keep their last known state."""
        if not self._doubtful:
            return
        log.error("a decision broke a promise, so all is listed again before it is carried out")
        try:
            await list_again()
        except ApiError as error:
            log.warning("it could not be listed again: %s", error)
        self._doubtful = False
