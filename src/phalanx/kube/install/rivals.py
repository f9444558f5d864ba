"""Detect whether another scheduler still runs in the cluster. Two schedulers must not resume the same jobs or bind the
same pods.

The leader of Kueue's controllers renews a Lease. While that Lease is fresh, Phalanx does not start. For other
schedulers, Phalanx reads the Deployment of their installation, and does not start while pods of this Deployment are
ready.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Iterable

from phalanx.client.connection import ApiRefusal, Connection
from phalanx.client.kind import DEPLOYMENTS, LEASES
from phalanx.client.moment import read_moment
from phalanx.dialects.enabled import RIVALS, Rival
from phalanx.dialects.frame.dialect import Object
from phalanx.errors import PhalanxError

_MISSED = 3.0  # after this number of missed renewals, the holder is assumed to be dead


class RivalRuns(PhalanxError):
    """An error: the scheduler of an enabled dialect runs. The text contains the scheduler, and what the user can do."""


async def refuse_beside_rivals(api: Connection, dialects: Iterable[str], now_s: float) -> None:
    """Raise RivalRuns if one of these dialects' schedulers runs. A scheduler counts as not running if this process has
    no right to read its Lease or Deployment."""
    rivals = {name: RIVALS[name] for name in dialects if name in RIVALS}
    found = await asyncio.gather(*(_at_work(api, rival, now_s) for rival in rivals.values()))
    for (name, rival), seen in zip(rivals.items(), found, strict=True):
        if seen:
            raise RivalRuns(
                f"{rival.what} runs in this cluster: {seen}. Both would start the same jobs, so this scheduler does "
                f"not start. Stop the other one first: {rival.stop}; or leave out --dialect {name}"
            )


async def rivals_at_work(api: Connection, now_s: float) -> dict[str, tuple[Rival, str]]:
    """Return the other schedulers that run in this cluster, each with the evidence that it runs. The key is the name of
    the scheduler's dialect. `now_s`: seconds since the epoch."""
    seen = {name: (rival, await _at_work(api, rival, now_s)) for name, rival in RIVALS.items()}
    return {name: (rival, text) for name, (rival, text) in seen.items() if text}


async def _at_work(api: Connection, rival: Rival, now_s: float) -> str:
    """Return the evidence that the scheduler runs; "" if there is none."""
    if rival.lease:
        holder = _holder(await _seen(api.get(LEASES, rival.lease, rival.namespace)), now_s)
        return f"{holder} holds the Lease {rival.namespace}/{rival.lease}" if holder else ""
    found = await _seen(api.get(DEPLOYMENTS, rival.deployment, rival.namespace))
    ready = (found.get("status") or {}).get("readyReplicas") or 0
    return f"{ready} pods of the Deployment {rival.namespace}/{rival.deployment} are ready" if ready else ""


def _holder(lease: Object, now_s: float) -> str:
    spec = lease.get("spec") or {}
    if not spec.get("holderIdentity") or not spec.get("renewTime"):
        return ""
    fresh_s = _MISSED * float(spec.get("leaseDurationSeconds") or 15)
    return str(spec["holderIdentity"]) if now_s - read_moment(spec["renewTime"]) < fresh_s else ""


async def _seen(asked: Awaitable[Object]) -> Object:
    """Return the object that the request `asked` reads; an empty object if it does not exist, or if this process may
    not read it."""
    try:
        return await asked
    except ApiRefusal as refusal:
        if refusal.code not in (403, 404):
            raise
        return {}
