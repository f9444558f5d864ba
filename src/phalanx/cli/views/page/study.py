"""Write and read state files: the state of the page at one moment of a simulation or recording. `phalanx dashboard
--state FILE` shows such a file.

An `Observer` is called for each step. It collects the entries that a ledger would have, so that the page can show the
past. For the state of the page, the observer copies the cluster state, and uses the same code as for a real cluster.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import inf
from pathlib import Path
from typing import Any

import msgspec

from phalanx import loop
from phalanx.cli.cluster.live_state.cluster_snapshot import Snapshot
from phalanx.cli.views.page.rows import Unit, past_rows, state_of
from phalanx.cli.views.page.sooner import outlook
from phalanx.client.kind import JOBS, NODES, PODS
from phalanx.dashboard.rows import Facts, PageState, PastRow, state_from
from phalanx.errors import PhalanxError
from phalanx.kube.install.definitions import QUEUES
from phalanx.ledger.accountant import Accountant
from phalanx.ledger.entry import JobEntry
from phalanx.model.event import Event
from phalanx.model.job import Phase
from phalanx.model.plan import Action, FirstReservation, Nominate, Plan, Wait
from phalanx.model.policy import Policy
from phalanx.state.cluster import Cluster, nominated_placements

_FORMAT = 1
_PAST_S = 2 * 86_400.0  # a state file contains the last two days; the page shows one day


class StateFile(msgspec.Struct, frozen=True, kw_only=True):
    """The content of a state file. `whole`: the response to GET /state of the page. `past`: the ended runs. `reasons`:
    for each pending job, the changes of its reason, as (time of the change, code)."""

    version: int = msgspec.field(name="phalanx state")
    whole: dict[str, Any]
    past: tuple[PastRow, ...] = ()
    reasons: dict[str, tuple[tuple[float, str], ...]] = {}


@dataclass(slots=True)
class Observer:
    """Observes the steps of a simulation or recording. `at_s`: the time whose state is shown, in seconds since the
    epoch. `state`, `past`, `reasons`: the result, filled by `show`."""

    at_s: float = inf
    state: PageState | None = None
    past: list[PastRow] = field(default_factory=list)
    reasons: dict[str, tuple[tuple[float, str], ...]] = field(default_factory=dict)
    facts: Facts = field(default_factory=Facts)
    _now_s: float = 0.0
    _entries: dict[str, JobEntry] = field(default_factory=dict)
    _first: FirstReservation | None = None
    _books: Accountant = field(init=False)

    def __post_init__(self) -> None:
        self._books = Accountant(lambda job: None, lambda: self._now_s)

    def step(self, cluster: Cluster, events: Sequence[Event], policy: Policy, now_s: float, world: Any) -> Plan:
        """Run a step of the scheduling loop and return its plan. Compute the state of the page before the first step
        with a time later than `at_s`."""
        if self.state is None and now_s > self.at_s:
            self._now_s = self.at_s
            self.show(cluster)
        plan = loop.step(cluster, events, policy, now_s, world)
        self.note(events, plan, now_s)
        return plan

    def note(self, events: Sequence[Event], plan: Plan, now_s: float) -> None:
        """Add the events and the plan of a step to the entries of jobs."""
        self._now_s, self._first = now_s, plan.reserved
        self._books.heard(events)
        self._books.planned(plan.actions)
        self._entries.update((entry.uid, entry) for entry in self._books.take())

    def show(self, cluster: Cluster) -> None:
        """Compute the state of the page from the present cluster state."""
        now_s, seen = self._now_s, cluster.copy()
        snapshot = Snapshot(
            cluster=seen,
            events=(),
            plan=Plan(tuple(_standing(seen)), None, self._first),
            gangs={},
            objects={kind: {} for kind in (JOBS, PODS, NODES, QUEUES)},
            wrong={},
            now_s=now_s,
        )
        self.state = state_of(snapshot, outlook(seen, now_s), self.facts)
        unit = Unit(node for node in seen.columns.nodes if node is not None)
        found = past_rows(self._entries.values(), unit, now_s - _PAST_S, now_s)
        queue = seen.policy.default_queue
        named = (row if row.queue else msgspec.structs.replace(row, queue=queue) for row in found)
        self.past = sorted(named, key=lambda row: -row.end_s)
        live = self._books.live.items()
        self.reasons = {job: tuple((each.at_s, each.code) for each in entry.reasons) for job, entry in live}


class Study:
    """The data source of a page that shows a state file: the past of the jobs in this file."""

    def __init__(self, past: Sequence[PastRow], reasons: Mapping[str, Sequence[tuple[float, str]]]) -> None:
        self._past, self._reasons = past, reasons

    async def past(self, from_s: float, to_s: float) -> Sequence[PastRow]:
        return [row for row in self._past if row.end_s >= from_s and row.start_s <= to_s]

    async def history(self, job: str) -> Sequence[tuple[float, str]]:
        return self._reasons.get(job, ())

    async def whatif(self, job: str, change: str) -> Mapping[str, object]:
        raise PhalanxError("a state file has no forecasts: run `phalanx simulate` again with the change")


def _standing(cluster: Cluster) -> Sequence[Action]:
    """Return the reasons and nominations of all pending jobs, as the actions of a plan."""
    found: list[Action] = []
    for name, record in cluster.jobs.items():
        if (reason := cluster.reason(name)) is not None and (record.phase is Phase.QUEUED or record.open):
            found.append(Wait(name, reason))
        if record.nominated and record.phase is Phase.QUEUED:
            found.append(Nominate(name, tuple(nominated_placements(record)), record.flavors))
    return found


def encoded(observer: Observer) -> bytes:
    """Return the content of the state file."""
    assert observer.state is not None
    sections: Mapping[str, object] = {name: list(rows.values()) for name, rows in observer.state.sections().items()}
    whole = {"facts": observer.state.facts, **sections}
    found = {"phalanx state": _FORMAT, "whole": whole, "past": observer.past, "reasons": observer.reasons}
    return msgspec.json.encode(found)


def read_state(file: Path) -> tuple[PageState, Study]:
    """Return the state in a state file, and the data source for its past. Raises PhalanxError if the file has another
    content."""
    try:
        found = msgspec.json.decode(file.read_bytes(), type=StateFile)
        if found.version != _FORMAT:
            raise PhalanxError(
                f"{file} is a state file of version {found.version}, but this program reads version {_FORMAT}. Write "
                "it again "
                "with `phalanx simulate --state` or `phalanx replay --state`."
            )
        return state_from(found.whole), Study(found.past, found.reasons)
    except OSError as error:
        raise PhalanxError(f"{file} cannot be read: {error.strerror}") from error
    except msgspec.MsgspecError as error:
        raise PhalanxError(
            f"{file} is not a state file: {error}. `phalanx simulate --state FILE` and `phalanx replay --state FILE` "
            "write one."
        ) from error
