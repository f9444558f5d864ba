"""Keep the front proxy's settings up to date by reading the cluster's ConfigMap every `PAUSE_S` seconds.

The last valid settings stay in use. So an API server that is down, or an invalid ConfigMap, does not lock out any
client.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Final

from phalanx.client.connection import ApiError, Connection
from phalanx.client.kind import CONFIG_MAPS
from phalanx.extensions.aggregation.front_proxy import CONFIG_MAP, NAMESPACE, FrontProxy, read_front_proxy

log = logging.getLogger(__name__)

PAUSE_S: Final = 15.0


class Belief:
    """The current settings of the front proxy. `proxy`: the last valid settings; None before the first successful read.
    `believe`: called with the certificate authority (PEM) whenever it has changed; it raises ValueError if the text is
    not a certificate."""

    def __init__(self, api: Connection, believe: Callable[[str], None]) -> None:
        self._api, self._believe = api, believe
        self.proxy: FrontProxy | None = None
        self._failure = ""

    def wrong(self) -> str:
        """Return why no request can be authenticated; empty if the settings are known."""
        if self.proxy is not None:
            return ""
        return self._failure or f"ConfigMap {NAMESPACE}/{CONFIG_MAP} is not read yet"

    async def keep(self) -> None:
        """Read the settings again and again, for ever. A failed read is logged and repeated after the pause."""
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
        """Read the settings once. Raises ApiError, ValueError."""
        found = await self._api.get(CONFIG_MAPS, CONFIG_MAP, NAMESPACE)
        proxy = read_front_proxy(found.get("data") or {})
        if self.proxy is None or proxy.authority != self.proxy.authority:
            self._believe(proxy.authority)
        self.proxy = proxy
