"""Data of the page that no watch delivers: the policy, past usage, run times, and whether a scheduler is the leader."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Sequence

from msgspec.structs import replace

from phalanx.cli.cluster.live_state import installation
from phalanx.cli.files.policy_file import PolicySettings
from phalanx.cli.views.page import rows
from phalanx.client.connection import ApiError, ApiRefusal, Connection
from phalanx.client.kind import LEASES
from phalanx.client.moment import MomentError, read_moment
from phalanx.dashboard.rows import Facts
from phalanx.kube.leader import NAME, NAMESPACE
from phalanx.kube.routing.settings import KubeSettings
from phalanx.kube.status.usage import load_usage
from phalanx.ledger.store import LedgerError
from phalanx.model.event import Event, RunTold

_ANSWER_S = 10.0  # the maximum wait for a response of the API server
_RELOAD_S = 60.0  # the pause between two reads of run times, past usage and the policy


class UnwatchedFacts:
    """The data of one cluster that no watch delivers, as they were last read. `usage`, `runs`: past usage and the run
    times of past jobs, as events. `backfilled`: the job and the start time of each backfilled start."""

    def __init__(self, connection: Connection, facts: Facts, ledger: str | None) -> None:
        self._connection, self._facts, self._ledger = connection, facts, ledger
        self._policies: PolicySettings | None = None
        self.usage: Sequence[Event] = ()
        self.runs: Sequence[RunTold] = ()
        self.backfilled: frozenset[tuple[str, float]] = frozenset()
        self._reloaded_s = float("-inf")

    async def begin(self) -> None:
        """Read the policy for the first time. Raises ApiError."""
        self._policies = await installation.settings_of_leader(self._connection)

    @property
    def policies(self) -> PolicySettings:
        assert self._policies is not None, "`begin` has not been called"
        return self._policies

    @property
    def settings(self) -> KubeSettings:
        policies = self.policies
        return KubeSettings(default_queue=policies.policy.default_queue, dialects=policies.dialects, patient=False)

    async def reload(self, at_s: float) -> None:
        """Read the policy, past usage and run times again if `_RELOAD_S` seconds have passed. `at_s`: the present time
        on the clock of the event loop."""
        if at_s - self._reloaded_s < _RELOAD_S:
            return
        self._reloaded_s = at_s
        with contextlib.suppress(ApiError):  # if the server does not answer, the earlier values stay
            self._policies = await installation.settings_of_leader(self._connection)
        with contextlib.suppress(ApiError, TimeoutError):
            async with asyncio.timeout(_ANSWER_S):  # without an answer in time, the earlier values stay
                self.usage = await load_usage(self._connection)
        self.runs = await asyncio.to_thread(installation.past_runs_of, self._ledger)
        if self._ledger is not None:
            with contextlib.suppress(LedgerError):
                self.backfilled = await asyncio.to_thread(rows.backfilled_starts, self._ledger)

    async def alive(self) -> Facts:
        """Return the facts about the page, with the time at which the leading scheduler last renewed its Lease."""
        try:
            lease = await self._connection.get(LEASES, NAME, NAMESPACE)
            alive_s = read_moment((lease.get("spec") or {}).get("renewTime") or "")
        except (ApiRefusal, MomentError):  # there is no Lease, or this user may not read it
            alive_s = None
        except ApiError:
            return self._facts
        self._facts = replace(self._facts, alive_s=alive_s)
        return self._facts
