"""The other scheduler's own controller, still at work: two that resume the same jobs would fight over them.

Whoever leads its controllers renews a Lease. While that is fresh, ours does not start.
"""

from __future__ import annotations

from collections.abc import Iterable

from phalanx.client.connection import ApiRefusal, Connection
from phalanx.client.kind import LEASES
from phalanx.client.moment import read_moment
from phalanx.dialects.enabled import RIVALS
from phalanx.errors import PhalanxError

_MISSED = 3.0  # a holder that missed so many renewals is gone


class RivalRuns(PhalanxError):
    """The controller of another scheduler runs; the text says whose, and what to do."""


async def refuse_beside_rivals(api: Connection, dialects: Iterable[str], now_s: float) -> None:
    """Raises RivalRuns where the controller of one of these dialects runs. Who may not look is not stopped."""
    for name in dialects:
        if (rival := RIVALS.get(name)) is None:
            continue
        try:
            lease = await api.get(LEASES, rival.lease, rival.namespace)
        except ApiRefusal as refusal:
            if refusal.code not in (403, 404):
                raise
            continue
        spec = lease.get("spec") or {}
        if not spec.get("holderIdentity") or not spec.get("renewTime"):
            continue
        fresh_s = _MISSED * float(spec.get("leaseDurationSeconds") or 15)
        if now_s - read_moment(spec["renewTime"]) < fresh_s:
            raise RivalRuns(
                f"{rival.what} runs in this cluster: {spec['holderIdentity']} holds the Lease {rival.namespace}/"
                f"{rival.lease}. Both would start the same jobs, so this scheduler does not start. Stop it first: "
                f"{rival.stop}; or leave out --dialect {name}"
            )
