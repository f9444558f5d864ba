"""Isolate the pods of a shared machine: find out which isolation the kernel supports, and separate the connections of
users."""

from __future__ import annotations

import asyncio
from contextlib import suppress

from phalanx.embedded.node.container.isolation import Isolation, find_isolation
from phalanx.embedded.node.machine.settings import NodeSettings
from phalanx.embedded.node.network.fence import NetworkFence, take_down
from phalanx.embedded.node.network.names import Networks
from phalanx.errors import PhalanxError


async def isolation_of(settings: NodeSettings) -> Isolation:
    """Return how containers can be isolated on this machine. Raises PhalanxError if this isolation is weaker than the
    settings require."""
    isolation = await asyncio.to_thread(find_isolation, settings.pods_dir)
    _require_confinement(settings, isolation)
    return isolation


def _require_confinement(settings: NodeSettings, isolation: Isolation) -> None:
    """Raise PhalanxError if pods of other users cannot be isolated on this machine, but the settings require it."""
    if settings.shared and isolation.shared_refusal:
        raise PhalanxError(
            f"this machine cannot be shared: {isolation.shared_refusal} (needed is Linux 5.12 or later). "
            "No pod was started. Start `phalanx up --shared` as root of the "
            "machine (`phalanx install` writes a service that does), or leave --shared out and have it for yourself."
        )


async def network_fence(settings: NodeSettings, home: Networks) -> NetworkFence | None:
    """Return the firewall rules that separate the connections of users; None if pods may reach every address."""
    if not settings.shared:
        return None
    if not settings.fenced:
        with suppress(PhalanxError):  # if nft fails, there are no rules to delete
            await take_down()
        return None
    fence = NetworkFence(home.services)
    await fence.try_out()
    return fence
