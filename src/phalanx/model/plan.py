"""What to do: the plan of one cycle. It is folded into the state at once, and then applied by a world.

Actions are named tuples: several are made for every job, at a third of the cost of a frozen dataclass.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple, TypeAlias

from phalanx.model.job import Placement, Slot
from phalanx.model.reason import Reason
from phalanx.state.classes import Demand, Gang
from phalanx.state.pending.bars import Toll
from phalanx.state.pending.line import Bid, Entry, LineKey


class Start(NamedTuple):
    """A queued job starts. `placements` has every role's minimum, and as many pods more as fit.

    In a queue with `gang=False` there are no placements: pods are placed one by one as they are `Opened`."""

    job: str
    attempt: int
    placements: tuple[Placement, ...]
    at_s: float = 0.0  # when it was decided, seconds since the epoch
    flavors: tuple[str, ...] = ()  # the flavor of each role's pods; empty: the queue names none
    limit_s: float | None = None  # it is stopped when it has run that long: its own limit, else its queue's


class Place(NamedTuple):
    """Open slots of a started job get their nodes."""

    job: str
    placements: tuple[Placement, ...]


class Wait(NamedTuple):
    """A job waits for another reason than before; of a started job: its open slots do."""

    job: str
    reason: Reason


class Preempt(NamedTuple):
    """A started job is preempted whole: it is stopped and waits again, with its age kept.

    What it holds stays charged until the world says that its pods are gone (`Refused`).

    `by`: the preemptor.
    `grace_s`: the job's pods have that long to end; None: as each pod says."""

    job: str
    attempt: int
    by: str
    reason: Reason
    grace_s: float | None = None


class Shrink(NamedTuple):
    """A started job releases slots above its minimum. What they hold stays charged until they are `Released`."""

    job: str
    slots: tuple[Slot, ...]
    by: str
    reason: Reason
    grace_s: float | None = None


class Nominate(NamedTuple):
    """A queued job, or open slots of a running one, are nominated for these nodes, which victims are leaving
    (nominatedNodeName of a pod, for a gang).

    The nodes are charged at once, so that nobody else is placed there. A nomination without placements withdraws the
    last one."""

    job: str
    placements: tuple[Placement, ...]
    flavors: tuple[str, ...] = ()
    until_s: float = 0.0  # taken back then, if the others have not left


Action: TypeAlias = Start | Place | Wait | Preempt | Shrink | Nominate

# The names of actions in recordings and metrics. They are stable, whatever the classes are called.
ACTION_NAMES: Final[Mapping[type[Action], str]] = {
    Start: "Start",
    Place: "Place",
    Wait: "Wait",
    Preempt: "Preempt",
    Shrink: "Shrink",
    Nominate: "Promise",
}


class Watch(NamedTuple):
    """In all, `room` pods of this demand fit (or fewer); at `need` of them the line is looked at again. `need` 0: as
    soon as room grows on any node that holds one of them."""

    demand: Demand
    room: int
    need: int


class Asleep(NamedTuple):
    """A line whose first bid cannot start: why, and when it is looked at again: when room grows (`watches`), when less
    is charged to the queue tree (`tolls`), or when pods of others that
    it heeds come or go (`heeds`); whichever is first. `place`: its place among those that want room, if backfill may
    give it a reservation; `held`: there is room, but it is kept. `foremost`: it lacks nothing but room for one role, so
    it sleeps in a crowd; what its queue's order counts most."""

    line: LineKey
    reason: Reason
    watches: tuple[Watch, ...] = ()
    tolls: tuple[Toll, ...] = ()
    heeds: bool = False
    place: tuple[float, float, int, str | int] | None = None
    held: bool = False
    foremost: float | None = None


class Still(NamedTuple):
    """A line that goes on sleeping for the same reason and need. `room`: how many pods of its one role fit in all;
    None: it is short of quota. `reason`: the same with new numbers, if it was explained anew."""

    line: LineKey
    room: int | None
    reason: Reason | None = None


class Joined(NamedTuple):
    """A bid takes its place in a line."""

    line: LineKey
    entry: Entry


class Findings(NamedTuple):
    """What deciding found out for the book, so that the next decision need not find it again. Worlds ignore it.

    Nothing is lost but time if it is not folded. `version` is the book's at the time: what was found before the latest
    event is not taken in. `parked` bids wait for an event about themselves, `resting` ones also for a time. `quiet`: of
    crowds that were roused, how many pods fit in all (None: not counted), and how often in a row without asking why.
    `looked`: backfill looked at all that sleep; `first`: who has the first reservation, and since when (seconds).
    `hunting`: sleeping lines that may make others give way, and whether they are yet to search (else they found
    nobody); `again`: when time makes that worth it (seconds since the epoch; None: it does not)."""

    version: int
    joined: tuple[Joined, ...] = ()
    parked: tuple[Bid, ...] = ()
    resting: tuple[tuple[Bid, float], ...] = ()
    asleep: tuple[Asleep, ...] = ()
    still: tuple[Still, ...] = ()
    quiet: tuple[tuple[Gang, int | None, int], ...] = ()
    looked: bool = False
    first: tuple[Bid, float] | None = None
    hunting: tuple[tuple[LineKey, bool], ...] = ()
    again: tuple[tuple[LineKey, float | None], ...] = ()


class Plan(NamedTuple):
    """The plan of one cycle. `wake_s`: decide again then (seconds since the epoch) even if nothing happens; None: no
    need."""

    actions: tuple[Action, ...] = ()
    wake_s: float | None = None
    findings: Findings | None = None
