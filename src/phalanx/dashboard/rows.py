"""The state of a cluster that the server sends to the page, and the changes since an earlier state.

A state consists of rows with keys, so a change can be sent as the rows that differ. All times are seconds since the
epoch. The *unit* is the resource whose amounts the page draws: GPUs if a node has any, else CPU cores. A field that has
its default value is not sent. Each reason is a row of its own, because many jobs may wait for the same reason.

Each published state has an id, `NONCE-NUMBER`. A page that has the state `a` gets the changes since `a`, if the server
still has all of them. Otherwise, for example after a restart of the server, the page gets the whole state."""

from __future__ import annotations

import asyncio
import gzip
import secrets
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec


class JobRow(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A job that is pending, runs, or has ended and is not deleted yet.

    `state`: the state as in `phalanx jobs`.
    `units`: how many GPUs (or CPU cores, see the module) all its pods request together. `each`: how many GPUs (or CPU
    cores) one pod of the largest role requests.
    `cpu`, `memory`: cores and GiB that all pods request.
    `places`: (node, GPUs or CPU cores) for each node of its pods, or of its nomination if the job is nominated.
    `end_s`: the expected end, according to the run times of similar jobs.
    `reason`: the key of its reason.
    `start_s`: six times from the forecast of the job's start. The first five are the 5th, 25th, 50th, 75th and 95th
    percentiles of the start; the sixth is the latest possible start. A time is None if it is after the end of the
    forecast. `position`: the position of the job among the pending jobs of its queue. `soon`: whether the next cycle
    starts the job.
    `backfilled`: whether the job runs and its start was a backfill."""

    id: str
    user: str = ""
    queue: str = ""
    state: str = "queued"
    units: float = 0
    each: float = 0
    pods: int = 0
    placed: int = 0
    cpu: float = 0
    memory: float = 0
    flavors: tuple[str, ...] = ()
    priority: int = 0
    nice: int = 0
    submitted_s: float = 0
    since_s: float = 0
    limit_s: float | None = None
    end_s: float | None = None
    places: tuple[tuple[str, float], ...] = ()
    array: str = ""
    array_cap: int | None = None
    reason: str = ""
    start_s: tuple[float | None, ...] = ()
    position: int = 0
    preempted: int = 0
    preempted_by: str = ""
    message: str = ""
    soon: bool = False
    backfilled: bool = False


class NodeRow(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A node. `group`: its rack; without a rack, its pool. `state`: ready, cordoned or not ready. `cpu`, `memory`: used
    and allocatable, in cores and GiB. `units`: its allocatable GPUs (or CPU cores, see the module). `foreign`: how many
    of these GPUs (or CPU cores) are requested by pods of other schedulers."""

    name: str
    group: str = ""
    flavor: str = ""
    state: str = "ready"
    units: float = 0
    foreign: float = 0
    cpu: tuple[float, float] = (0, 0)
    memory: tuple[float, float] = (0, 0)


class QueueRow(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A queue. All amounts are numbers of GPUs (or CPU cores, see the module). `guaranteed`: the guaranteed amount;
    None if the queue has no guarantee. `limit`: the largest amount that the queue may use; None if the queue has no
    limit. `share`: its weighted dominant share; None stands for an infinite share. `fault`: why the queue starts no
    jobs."""

    name: str
    parent: str = ""
    depth: int = 0
    used: float = 0
    guaranteed: float | None = None
    limit: float | None = None
    running: int = 0
    waiting: int = 0
    share: float | None = 0
    weight: float = 1
    order: str = ""
    state: str = "open"
    fault: str = ""


class ReasonRow(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A reason why jobs wait. `never`: whether the jobs cannot start unless the job, the settings or the nodes are
    changed."""

    key: str
    code: str
    text: str
    numbers: Mapping[str, Any] = {}
    never: bool = False


class ReservationRow(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An advance reservation. `whom`: the users, groups or queues that may use it; empty for maintenance."""

    name: str
    nodes: tuple[str, ...] = ()
    start_s: float = 0
    end_s: float = 0
    whom: str = ""


class PlayedRow(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The expected run of a pending job if every job runs for its median run time."""

    job: str
    start_s: float
    end_s: float
    places: tuple[tuple[str, float], ...] = ()
    backfilled: bool = False


class Facts(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The data about the whole cluster that the page shows.

    `at_s`: the time of the state.
    `unit`: the resource whose amounts the page draws.
    `namespaces`: the namespaces that the viewer may see; None stands for all namespaces. `alive_s`: when the scheduler
    last showed that it runs; None if this is not known.
    `forecast_s`: the time of the forecast; None if there is none.
    `head`, `head_s`: the job with the first backfill reservation, and the latest start of this job.
    `past`: True if there is a ledger (accounting database) with ended jobs.
    `study`: the name of the simulation or recording that is shown; empty for a running cluster. `terminal`: the options
    with which a command in a terminal reaches this cluster (`--kubeconfig FILE`)."""

    at_s: float = 0
    cluster: str = ""
    version: str = ""
    unit: str = "cpu"
    user: str = ""
    namespaces: tuple[str, ...] | None = None
    alive_s: float | None = None
    forecast_s: float | None = None
    head: str = ""
    head_s: float | None = None
    past: bool = False
    study: str = ""
    terminal: str = ""


class PastRow(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A run of a job that is over. `outcome`: the state in the ledger (COMPLETED, FAILED, TIMEOUT, CANCELLED,
    PREEMPTED, REQUEUED, LAUNCH_FAILED). `why`: the reason for the end, as text. `by`: the preemptor. `places`: (node,
    GPUs or CPU cores) for each node of the run. `backfilled`: whether the start was a backfill."""

    job: str
    user: str
    queue: str
    units: float
    submitted_s: float
    start_s: float
    end_s: float
    outcome: str
    why: str = ""
    by: str = ""
    places: tuple[tuple[str, float], ...] = ()
    backfilled: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class PageState:
    """The state of a cluster at one time. Each field is one section of the page's data."""

    facts: Facts
    jobs: Mapping[str, JobRow] = field(default_factory=dict)
    queues: Mapping[str, QueueRow] = field(default_factory=dict)
    nodes: Mapping[str, NodeRow] = field(default_factory=dict)
    reasons: Mapping[str, ReasonRow] = field(default_factory=dict)
    reservations: Mapping[str, ReservationRow] = field(default_factory=dict)
    played: Mapping[str, PlayedRow] = field(default_factory=dict)

    def sections(self) -> dict[str, Mapping[str, msgspec.Struct]]:
        """Return name of a section of the page -> its rows."""
        return {name: getattr(self, name) for name in SECTIONS}


SECTIONS = ("queues", "nodes", "reasons", "jobs", "reservations", "played")


class _Whole(msgspec.Struct, kw_only=True):
    """The response to GET /state."""

    facts: Facts
    queues: list[QueueRow]
    nodes: list[NodeRow]
    reasons: list[ReasonRow]
    jobs: list[JobRow]
    reservations: list[ReservationRow]
    played: list[PlayedRow]


def state_from(whole: Mapping[str, object]) -> PageState:
    """Return the state in a response to GET /state. Raises msgspec.ValidationError."""
    found = msgspec.convert(whole, _Whole)
    return PageState(
        facts=found.facts,
        queues={row.name: row for row in found.queues},
        nodes={row.name: row for row in found.nodes},
        reasons={row.key: row for row in found.reasons},
        jobs={row.id: row for row in found.jobs},
        reservations={row.name: row for row in found.reservations},
        played={row.job: row for row in found.played},
    )


KEPT = 128  # the number of latest changes of the page's state that the server keeps


@dataclass(frozen=True, slots=True)
class PageUpdate:
    """A change from the previous state to the state with the number `to`. `body`: a JSON object with the facts, and for
    each section the changed rows (`set`) and the keys of removed rows (`gone`)."""

    to: int
    body: bytes


class Packed:
    """Content that is also available compressed. It is compressed only once, at the first request."""

    def __init__(self, plain: bytes) -> None:
        self.plain = plain
        self._gzipped = b""

    @property
    def gzipped(self) -> bytes:
        if not self._gzipped:
            self._gzipped = gzip.compress(self.plain, 5, mtime=0)
        return self._gzipped


class Board:
    """The newest state of the page and its latest changes. All viewers with the same rights share one board."""

    def __init__(self) -> None:
        self._nonce = secrets.token_hex(4)
        self._number = 0
        self._state: PageState | None = None
        self._changes: deque[PageUpdate] = deque(maxlen=KEPT)
        self._whole: Packed | None = None
        self._news = asyncio.Event()

    @property
    def id(self) -> str:
        """The id of the newest state."""
        return self._id(self._number)

    def _id(self, number: int) -> str:
        return f"{self._nonce}-{number}"

    @property
    def empty(self) -> bool:
        return self._state is None

    def publish(self, state: PageState) -> None:
        """Publish a new state."""
        if state is self._state:
            return
        if self._state is not None:
            self._number += 1
            self._changes.append(PageUpdate(self._number, msgspec.json.encode(difference(self._state, state))))
        self._state, self._whole = state, None
        news, self._news = self._news, asyncio.Event()
        news.set()

    def whole(self) -> bytes:
        """Return the newest state as JSON, with its id."""
        return self.packed().plain

    def packed(self) -> Packed:
        """Return the newest state as JSON with its id, also available compressed."""
        assert self._state is not None
        if self._whole is None:
            rows = {name: list(section.values()) for name, section in self._state.sections().items()}
            self._whole = Packed(msgspec.json.encode({"id": self.id, "facts": self._state.facts, **rows}))
        return self._whole

    def since(self, known: str) -> list[tuple[str, str, bytes]] | None:
        """Return the changes since the state with the id `known`, each as (id before, id after, change). Return None if
        the server no longer has all these changes."""
        nonce, _, number = known.rpartition("-")
        if nonce != self._nonce or not number.isdecimal() or int(number) > self._number:
            return None
        found = [change for change in self._changes if change.to > int(number)]
        if len(found) != self._number - int(number):
            return None
        return [(self._id(change.to - 1), self._id(change.to), change.body) for change in found]

    async def changed(self) -> None:
        """Wait until a newer state is published."""
        await self._news.wait()


def difference(old: PageState, new: PageState) -> dict[str, Any]:
    """Return the changes from the old state to the new one."""
    found: dict[str, Any] = {"facts": new.facts}
    before = old.sections()
    for name, section in new.sections().items():
        known: Mapping[str, Any] = before[name]
        changed = [row for key, row in section.items() if known.get(key) != row]
        gone = [key for key in known if key not in section]
        if changed or gone:
            found[name] = {"set": changed, "gone": gone}
    return found
