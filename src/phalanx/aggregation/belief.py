"""Whom to believe, as the cluster says now: its ConfigMap is looked at again and again.

What was read counts until something else is there: an API server that is away, or a ConfigMap that somebody broke,
shuts nobody out.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Final

from phalanx.aggregation.front_proxy import CONFIG_MAP, NAMESPACE, FrontProxy, read_front_proxy
from phalanx.client.connection import ApiError, Connection
from phalanx.client.kind import CONFIG_MAPS

log = logging.getLogger(__name__)

PAUSE_S: Final = 15.0


class Belief:
    """`proxy`: what counts; None: nothing was read yet. `believe`: told the authority whenever it is another one, and
    raises ValueError if that is none."""

    def __init__(self, api: Connection, believe: Callable[[str], None]) -> None:
        self._api, self._believe = api, believe
        self.proxy: FrontProxy | None = None
        self._failure = ""

    def wrong(self) -> str:
        """Return why nobody can be believed; empty: nothing."""
        if self.proxy is not None:
            return ""
        return self._failure or f"ConfigMap {NAMESPACE}/{CONFIG_MAP} is not read yet"

    async def keep(self) -> None:
        """For ever. What fails is tried again."""
        while True:
            try:
                await self.step()
                failure = ""
            except (ApiError, ValueError) as error:
                failure = f"ConfigMap {NAMESPACE}/{CONFIG_MAP}: {error}"
            if failure and failure != self._failure:
                log.warning("whom to believe is not known: %s", failure)
            self._failure = failure
            await asyncio.sleep(PAUSE_S)

    async def step(self) -> None:
        """Once. Raises ApiError, ValueError."""
        found = await self._api.get(CONFIG_MAPS, CONFIG_MAP, NAMESPACE)
        proxy = read_front_proxy(found.get("data") or {})
        if self.proxy is None or proxy.authority != self.proxy.authority:
            self._believe(proxy.authority)
        self.proxy = proxy
