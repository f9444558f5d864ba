"""List the cluster's objects again if a decision of the core overcommits a node. No part of that decision is written to
the API server before the objects are listed.

A decision that overcommits a node (a *breach*) has one of two causes: a defect of the core, or a missed change (the
core got no event about it). If a change was missed, the new list shows it. So pods, Jobs, nodes and queues are listed
again before any write of the plan, such as the resume of a Job or the eviction of a victim. Each difference between the
list and the caches is reported to the core as a change. Right before the pods are bound, `NodeAllocations` checks their
nodes again, and a pod whose node lacks the capacity is left unbound. The objects are listed at most once a minute, even
if a defect causes a breach in each cycle. The caller counts the breaches; this module only reads the number, and logs
it.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Awaitable, Callable
from math import inf

from phalanx.client.connection import ApiError

log = logging.getLogger(__name__)

_REST_S = 60.0  # the objects are listed again at most once in this many seconds


class BreachRelist:
    """Check whether a decision has overcommitted a node since the objects were last listed. `breaches`: a function that
    returns how many decisions have overcommitted a node so far."""

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
        """List the objects again if a breach makes it necessary. If a kind cannot be listed, the last known state of
        its objects stays in use."""
        if not self._doubtful:
            return
        log.error("a decision overcommits a node; all objects are listed again before the decision is carried out")
        try:
            await list_again()
        except ApiError as error:
            log.warning("the objects could not be listed again: %s", error)
        self._doubtful = False
